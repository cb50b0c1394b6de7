//! A list of ports is refused, or means the same when it is printed and read again.

#![no_main]

use libfuzzer_sys::fuzz_target;
use proxy_init_rules::{PortGroup, PortRange};

fuzz_target!(|text: &str| {
    let Ok(ports) = PortRange::parse_list(text) else {
        return;
    };
    let shown: Vec<String> = ports.iter().map(ToString::to_string).collect();
    assert_eq!(PortRange::parse_list(&shown.join(",")).as_ref(), Ok(&ports));

    let groups = PortGroup::split(&ports);
    let grouped: Vec<PortRange> = groups.iter().flat_map(|g| g.ports().to_vec()).collect();
    assert_eq!(grouped, ports, "splitting loses or moves ports");
    for group in groups {
        let slots: usize = group.ports().iter().map(|port| port.slots()).sum();
        assert!((1..=PortGroup::MOST_SLOTS).contains(&slots), "{group}");
    }
});
