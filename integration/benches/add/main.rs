//! How fast the plugin is, beside what cannot be done without and beside one process per rule.
//!
//! Everything runs side by side in one run on one machine: `cargo bench -p linkerd-cni-integration`
//! with `LINKERD_CNI_BIN` naming the shipping executable. Prints a table, and writes it as JSON to
//! the file that `LINKERD_CNI_BENCH_JSON` names.

use std::fs;
use std::time::{Duration, Instant};

use linkerd_cni_integration::fixtures;
use linkerd_cni_integration::plugin::Call;
use linkerd_cni_integration::process;
use linkerd_cni_integration::stage::Stage;
use proxy_init_rules::{Config, Family, RawConfig, RuleSet};
use serde_json::{Value, json};

mod baseline;
mod sample;

use self::baseline::{Get, one_process_per_rule};
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
    let rows = [cases()?, crowd()?, vec![memory()?]].concat();
    print(&rows);
    if let Some(file) = std::env::var_os("LINKERD_CNI_BENCH_JSON") {
        fs::write(file, serde_json::to_string_pretty(&rows)?)?;
    }
    Ok(())
}

/// One line of the table.
fn row(case: &str, value: &str, against: &str, factor: f64, target: &str) -> Value {
    let factor = (factor * 100.0).round() / 100.0;
    json!({"case": case, "value": value, "against": against, "factor": factor, "target": target})
}

/// Every case takes turns with the others, so that what the machine does meanwhile hits all.
fn cases() -> anyhow::Result<Vec<Value>> {
    let [mut floor, mut add, mut legacy, mut dual] = [(); 4].map(|()| Sample::default());
    let [mut slow, mut spawn, mut pass, mut check, mut del] = [(); 5].map(|()| Sample::default());
    for _ in 0..RUNS {
        floor.add(bare_floor()?);
        let nft = stage("nft", false);
        add.add(nft.add().time()?);
        check.add(nft.call("CHECK").time()?);
        del.add(nft.del().time()?);
        legacy.add(stage("legacy", false).add().time()?);
        dual.add(stage("nft", true).add().time()?);
        slow.add(one_process_per_rule(&stage("nft", false))?);
        spawn.add(process::time(&mut process::command("/bin/true"), b"")?);
        pass.add(nft.add().args("").time()?);
    }
    let by = |sample: &Sample, other: &Sample| sample.median() / other.median();
    let text = |sample: &Sample| sample.to_string();
    Ok(vec![
        row(
            "ADD, meshed, IPv4, nft",
            &text(&add),
            &format!("floor {floor}"),
            by(&add, &floor),
            "≤ 1.5",
        ),
        row(
            "the same, p99",
            &text(&add),
            &format!("floor {floor}"),
            add.p99() / floor.p99(),
            "≤ 3",
        ),
        row(
            "one process per rule, 6 GETs",
            &text(&slow),
            &format!("ADD {add}"),
            by(&slow, &add),
            "≥ 8",
        ),
        row(
            "ADD, meshed, IPv4, legacy",
            &text(&legacy),
            &format!("floor (nft) {floor}"),
            by(&legacy, &floor),
            "",
        ),
        row(
            "ADD, dual stack, nft",
            &text(&dual),
            &format!("ADD {add}"),
            by(&dual, &add),
            "≤ 1.5",
        ),
        row(
            "ADD, not Kubernetes",
            &text(&pass),
            &format!("/bin/true {spawn}"),
            by(&pass, &spawn),
            "≤ 5",
        ),
        row(
            "CHECK",
            &text(&check),
            &format!("/bin/true {spawn}"),
            by(&check, &spawn),
            "≤ 5",
        ),
        row(
            "DEL",
            &text(&del),
            &format!("/bin/true {spawn}"),
            by(&del, &spawn),
            "≤ 5",
        ),
    ])
}

fn stage(mode: &str, ipv6: bool) -> Stage {
    Stage::new("meshed")
        .linkerd("iptables-mode", mode)
        .linkerd("ipv6", ipv6)
}

/// One bare `iptables-nft-restore` of the same rules plus one bare TLS GET of the same pod.
fn bare_floor() -> anyhow::Result<Duration> {
    let stage = stage("nft", false);
    let linkerd = RawConfig::from_value(&stage.config["linkerd"])?;
    let rules = RuleSet::new(&Config::try_from(linkerd)?, Family::Ipv4).render_install();
    let mut get = Get::new(&stage.api)?;
    let path = path_of(&fixtures::pod("meshed"));
    let started = Instant::now();
    get.get(&path)?;
    let got = started.elapsed();
    let mut restore = process::command("/usr/sbin/iptables-nft-restore");
    restore.arg("--noflush");
    let inside = || process::time(&mut restore, rules.as_bytes());
    Ok(got + stage.netns.enter(inside)?)
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
fn crowd() -> anyhow::Result<Vec<Value>> {
    let stages: Vec<Stage> = (0..CROWD).map(|_| stage("nft", false)).collect();
    let alone: Vec<Stage> = (0..CROWD).map(|_| stage("nft", false)).collect();
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
    Ok(vec![row(
        &format!("{CROWD} ADDs at once, CPU time"),
        &format!(
            "{:.0} ms ({:.0} ms elapsed)",
            sample::ms(all),
            sample::ms(took)
        ),
        &format!("{CROWD} ADDs in turn {:.0} ms", sample::ms(one)),
        all.as_secs_f64() / one.as_secs_f64(),
        "≤ 1.3",
    )])
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
