//! How fast the plugin is, beside what cannot be done without and beside one process per rule.
//!
//! Everything runs side by side in one run on one machine: `cargo bench -p linkerd-cni-integration`
//! with `LINKERD_CNI_BIN` naming the shipping executable. Prints a table, and writes it as JSON to
//! the file that `LINKERD_CNI_BENCH_JSON` names.

use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

use linkerd_cni_integration::fixtures;
use linkerd_cni_integration::plugin::Call;
use linkerd_cni_integration::process;
use linkerd_cni_integration::stage::{RECORDS, Stage};
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use proxy_init_rules::{Config, Family, RawConfig, RuleSet, render_uninstall};
use serde_json::{Value, json};

mod baseline;
mod netlink;
mod sample;

use self::baseline::{Get, one_process_per_rule};
use self::netlink::Transaction;
use self::sample::Sample;

/// How often each case runs.
const RUNS: usize = 100;
/// How many ADDs start at once.
const CROWD: usize = 64;

fn main() -> anyhow::Result<()> {
    // Cargo asks every benchmark for its list; there is none.
    if std::env::args().any(|argument| argument == "--list") {
        return Ok(());
    }
    records_in_memory()?;
    let rows = [cases()?, vec![crowd("native")?, crowd("nft")?, memory()?]].concat();
    print(&rows);
    if let Some(file) = std::env::var_os("LINKERD_CNI_BENCH_JSON") {
        fs::write(file, serde_json::to_string_pretty(&rows)?)?;
    }
    Ok(())
}

/// Where the records are is a file system in memory on every node; on a machine like this it need
/// not be one.
fn records_in_memory() -> anyhow::Result<()> {
    fs::create_dir_all(RECORDS)?;
    unshare(CloneFlags::CLONE_NEWNS)?;
    let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
    mount(None::<&str>, "/", None::<&str>, private, None::<&str>)?;
    mount(
        Some("tmpfs"),
        RECORDS,
        Some("tmpfs"),
        MsFlags::empty(),
        Some("mode=0700"),
    )?;
    Ok(())
}

/// One line of the table.
fn row(case: &str, value: &str, against: &str, factor: f64, target: &str) -> Value {
    let factor = (factor * 100.0).round() / 100.0;
    json!({"case": case, "value": value, "against": against, "factor": factor, "target": target})
}

/// What is measured, what it is measured against, and the factor that is aimed at; of medians, or
/// of the 99th percentiles.
const ROWS: [(&str, &str, f64, &str); 20] = [
    (NFT, NFT_FLOOR, 0.5, "≤ 1.5"),
    (NFT, NFT_FLOOR, 0.99, "≤ 3"),
    (NATIVE, NATIVE_FLOOR, 0.5, "≤ 1.2"),
    (NATIVE, NATIVE_FLOOR, 0.99, ""),
    (NATIVE, BARE_PROCESS, 0.5, ""),
    (SLOW, NATIVE, 0.5, "≥ 8"),
    (SLOW, NFT, 0.5, "≥ 8"),
    ("ADD, meshed, dual stack, native", NATIVE, 0.5, "≤ 1.5"),
    ("ADD, meshed, dual stack, nft", NFT, 0.5, "≤ 1.5"),
    ("ADD, meshed, pod of 300 KiB, native", NATIVE, 0.5, ""),
    ("ADD, meshed, IPv4, legacy", NFT_FLOOR, 0.5, ""),
    ("ADD, not Kubernetes", SPAWN, 0.5, "≤ 5"),
    ("CHECK, native", SPAWN, 0.5, "≤ 5"),
    ("CHECK, nft", SPAWN, 0.5, "≤ 5"),
    ("CHECK, legacy", SPAWN, 0.5, "≤ 5"),
    ("DEL, legacy", SPAWN, 0.5, "≤ 5"),
    ("DEL, native", SPAWN, 0.5, "≤ 5"),
    ("DEL, nft", SPAWN, 0.5, "≤ 5"),
    ("DEL, nft", REMOVAL, 0.5, ""),
    ("DEL, unmeshed", SPAWN, 0.5, "≤ 5"),
];
const NFT: &str = "ADD, meshed, IPv4, nft";
const NATIVE: &str = "ADD, meshed, IPv4, native";
const SLOW: &str = "one process per rule, 6 GETs";
const NFT_FLOOR: &str = "bare iptables-nft-restore and TLS GET";
const NATIVE_FLOOR: &str = "bare netlink transaction and TLS GET";
/// The runtime starts a process for each ADD, so what comes in addition to one is what is ours.
const BARE_PROCESS: &str = "the same and /bin/true";
const REMOVAL: &str = "bare iptables-nft-restore that removes";
const SPAWN: &str = "/bin/true";
/// Another CNI plugin, if `REFERENCE_CNI_BIN` names one.
const REFERENCE: &str = "ADD of REFERENCE_CNI_BIN, nft";

/// Every case takes turns with the others, so that what the machine does meanwhile hits all.
fn cases() -> anyhow::Result<Vec<Value>> {
    let transaction = Transaction::of_an_add(&stage("native", false))?;
    let reference = std::env::var_os("REFERENCE_CNI_BIN");
    let mut samples: BTreeMap<&str, Sample> = BTreeMap::new();
    let mut add = |case, duration| samples.entry(case).or_default().add(duration);
    for _ in 0..RUNS {
        let spawned = process::time(&mut process::command("/bin/true"), b"")?;
        add(SPAWN, spawned);
        let (floor, removal) = bare()?;
        add(NFT_FLOOR, floor);
        add(REMOVAL, removal);
        let floor = bare_native(&transaction)?;
        add(NATIVE_FLOOR, floor);
        add(BARE_PROCESS, floor + spawned);
        let native = stage("native", false);
        add("ADD, not Kubernetes", native.add().args("").time()?);
        add(NATIVE, native.add().time()?);
        add("CHECK, native", native.call("CHECK").time()?);
        add("DEL, native", native.del().time()?);
        let nft = stage("nft", false);
        add(NFT, nft.add().time()?);
        add("CHECK, nft", nft.call("CHECK").time()?);
        add("DEL, nft", nft.del().time()?);
        let legacy = stage("legacy", false);
        add("ADD, meshed, IPv4, legacy", legacy.add().time()?);
        add("CHECK, legacy", legacy.call("CHECK").time()?);
        add("DEL, legacy", legacy.del().time()?);
        for (case, mode) in [
            ("ADD, meshed, dual stack, native", "native"),
            ("ADD, meshed, dual stack, nft", "nft"),
        ] {
            add(case, stage(mode, true).add().time()?);
        }
        let large = stage("native", false).annotate("example.com/large", &"x".repeat(300 << 10));
        add("ADD, meshed, pod of 300 KiB, native", large.add().time()?);
        add(SLOW, one_process_per_rule(&stage("nft", false))?);
        let unmeshed = Stage::new("unmeshed");
        unmeshed.add().succeed();
        add("DEL, unmeshed", unmeshed.del().time()?);
        if let Some(other) = &reference {
            add(
                REFERENCE,
                stage("nft", false).add().executable(other).time()?,
            );
        }
    }
    let mut rows: Vec<Value> = ROWS.iter().map(|of| compared(&samples, *of)).collect();
    if reference.is_some() {
        rows.push(compared(&samples, (REFERENCE, NFT, 0.5, "")));
    }
    Ok(rows)
}

fn compared(
    samples: &BTreeMap<&str, Sample>,
    (case, against, quantile, target): (&str, &str, f64, &str),
) -> Value {
    let (sample, other) = (&samples[case], &samples[against]);
    let factor = sample.quantile(quantile) / other.quantile(quantile);
    let case = if quantile > 0.5 {
        "the same, p99"
    } else {
        case
    };
    row(
        case,
        &sample.to_string(),
        &format!("{against} {other}"),
        factor,
        target,
    )
}

fn stage(mode: &str, ipv6: bool) -> Stage {
    Stage::new("meshed")
        .linkerd("iptables-mode", mode)
        .linkerd("ipv6", ipv6)
}

/// One bare TLS GET of the same pod, and the transaction of ADD's own rules by a bare socket.
fn bare_native(transaction: &Transaction) -> anyhow::Result<Duration> {
    let stage = stage("native", false);
    let mut get = Get::new(&stage.api)?;
    let path = path_of(&fixtures::pod("meshed"));
    let started = Instant::now();
    get.get(&path)?;
    let got = started.elapsed();
    let carried_out = stage.netns.enter(|| transaction.carry_out())?;
    Ok(got + carried_out)
}

/// One bare `iptables-nft-restore` of the same rules plus one bare TLS GET of the same pod; and one
/// that takes the rules out again.
fn bare() -> anyhow::Result<(Duration, Duration)> {
    let stage = stage("nft", false);
    let linkerd = RawConfig::from_value(&stage.config["linkerd"])?;
    let rules = RuleSet::new(&Config::try_from(linkerd)?, Family::Ipv4).render_install();
    let mut get = Get::new(&stage.api)?;
    let path = path_of(&fixtures::pod("meshed"));
    let started = Instant::now();
    get.get(&path)?;
    let got = started.elapsed();
    let restore = |payload: String| {
        let mut command = process::command("/usr/sbin/iptables-nft-restore");
        command.arg("--noflush");
        stage
            .netns
            .enter(|| process::time(&mut command, payload.as_bytes()))
    };
    Ok((got + restore(rules)?, restore(render_uninstall())?))
}

fn path_of(pod: &Value) -> String {
    let name = |key: &str| pod["metadata"][key].as_str().unwrap_or_default();
    format!(
        "/api/v1/namespaces/{}/pods/{}",
        name("namespace"),
        name("name")
    )
}

/// 64 ADDs at once, against 64 times the CPU time of one.
fn crowd(mode: &str) -> anyhow::Result<Value> {
    let stages: Vec<Stage> = (0..CROWD).map(|_| stage(mode, false)).collect();
    let alone: Vec<Stage> = (0..CROWD).map(|_| stage(mode, false)).collect();
    let one =
        sample::cpu_of_children(|| alone.iter().try_for_each(|s| s.add().time().map(|_| ())))?;
    let started = Instant::now();
    let calls: Vec<Call> = stages.iter().map(Stage::add).collect();
    let all = sample::cpu_of_children(|| {
        std::thread::scope(|scope| {
            let threads: Vec<_> = calls
                .iter()
                .map(|call| scope.spawn(|| call.time()))
                .collect();
            threads
                .into_iter()
                .try_for_each(|thread| thread.join().expect("a call does not panic").map(|_| ()))
        })
    })?;
    let took = started.elapsed();
    Ok(row(
        &format!("{CROWD} ADDs at once, {mode}, CPU time"),
        &format!(
            "{:.0} ms ({:.0} ms elapsed)",
            sample::ms(all),
            sample::ms(took)
        ),
        &format!("{CROWD} ADDs in turn {:.0} ms", sample::ms(one)),
        all.as_secs_f64() / one.as_secs_f64(),
        "≤ 1.3",
    ))
}

/// Peak resident memory of one ADD, as `/usr/bin/time` has it from the kernel.
fn memory() -> anyhow::Result<Value> {
    let stage = stage("nft", true);
    let output = stage
        .add()
        .through(["/usr/bin/time", "-f", "peak %M"])
        .succeed();
    let peak = output
        .stderr
        .lines()
        .find_map(|line| line.strip_prefix("peak "));
    let kib: f64 = peak.unwrap_or_default().parse()?;
    let size = fs::metadata(linkerd_cni_integration::binaries::plugin())?.len();
    Ok(row(
        "peak memory, dual-stack ADD",
        &format!("{:.1} MiB", kib / 1024.0),
        &format!("executable {:.1} MiB", size as f64 / f64::from(1 << 20)),
        kib / 1024.0 / 16.0,
        "< 16 MiB",
    ))
}

#[expect(clippy::print_stdout, reason = "the table is what this program is for")]
fn print(rows: &[Value]) {
    let text = |row: &Value, key: &str| row[key].as_str().unwrap_or_default().to_owned();
    println!(
        "| case | median / p99 of {RUNS} | against | factor | target |\n| --- | --- | --- | --- | --- |"
    );
    for row in rows {
        println!(
            "| {} | {} | {} | {} | {} |",
            text(row, "case"),
            text(row, "value"),
            text(row, "against"),
            row["factor"],
            text(row, "target")
        );
    }
}
