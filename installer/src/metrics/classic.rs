//! The text format of before OpenMetrics, for those who do not ask for that one.

use std::collections::BTreeSet;

/// From OpenMetrics to the format 0.0.4: in that a counter's family is called as its samples are,
/// and there is no end mark.
pub(super) fn classic(text: &str) -> String {
    let counter = |line: &'_ str| -> Option<String> {
        let name = line.strip_prefix("# TYPE ")?.strip_suffix(" counter")?;
        Some(name.to_owned())
    };
    let counters: BTreeSet<String> = text.lines().filter_map(counter).collect();
    let lines = text.lines().filter(|line| *line != "# EOF");
    lines.map(|line| renamed(line, &counters) + "\n").collect()
}

fn renamed(line: &str, counters: &BTreeSet<String>) -> String {
    let mut words = line.splitn(4, ' ');
    match [(); 4].map(|()| words.next()) {
        [Some("#"), Some(what), Some(name), Some(rest)] if counters.contains(name) => {
            format!("# {what} {name}_total {rest}")
        }
        _ => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_names_of_counters_change() {
        let text = "# HELP a Some of it.\n# TYPE a counter\na_total{x=\"# TYPE a\"} 1\n\
                    # HELP b A.\n# TYPE b gauge\nb 2\n# EOF\n";
        let expected = "# HELP a_total Some of it.\n# TYPE a_total counter\n\
                        a_total{x=\"# TYPE a\"} 1\n# HELP b A.\n# TYPE b gauge\nb 2\n";
        assert_eq!(classic(text), expected);
    }
}
