//! Reads metrics as Prometheus does (OpenMetrics text), strictly.

use std::collections::BTreeMap;

/// The samples by name and labels, these in the order of their names.
#[derive(Clone, Debug)]
pub struct Exposition {
    types: BTreeMap<String, String>,
    samples: BTreeMap<String, f64>,
}

// === impl Exposition ===

impl Exposition {
    /// Reads a text.
    ///
    /// # Panics
    ///
    /// If it is not what the format allows; with the line.
    pub fn parse(text: &str) -> Self {
        let text = text.strip_suffix("# EOF\n").expect("it ends with # EOF");
        let mut read = Self {
            types: BTreeMap::new(),
            samples: BTreeMap::new(),
        };
        for line in text.lines() {
            match line.strip_prefix("# ") {
                Some(comment) => read.comment(comment),
                None => read.sample(line),
            }
        }
        read
    }

    /// A sample, such as `name{a="x",b="y"}`; labels in the order of their names, empty ones left
    /// out, as for Prometheus they are not there.
    pub fn value(&self, sample: &str) -> Option<f64> {
        self.samples.get(sample).copied()
    }

    /// The samples whose name and labels begin like this.
    pub fn starting(&self, start: &str) -> Vec<(&str, f64)> {
        let all = self.samples.iter();
        all.filter(|(name, _)| name.starts_with(start))
            .map(|(name, value)| (name.as_str(), *value))
            .collect()
    }

    fn comment(&mut self, comment: &str) {
        let words: Vec<_> = comment.splitn(3, ' ').collect();
        match words.as_slice() {
            ["TYPE", name, kind] => {
                let former = self.types.insert((*name).to_owned(), (*kind).to_owned());
                assert_eq!(former, None, "two types: {comment}");
            }
            ["HELP" | "UNIT", _, _] => {}
            _ => panic!("no comment of the format: {comment}"),
        }
    }

    fn sample(&mut self, line: &str) {
        let (series, value) = line.rsplit_once(' ').expect("a sample has a value");
        let value: f64 = value.parse().unwrap_or_else(|_| panic!("{line}"));
        let (name, labels) = match series.split_once('{') {
            Some((name, labels)) => (name, labels.strip_suffix('}').expect("a closing brace")),
            None => (series, ""),
        };
        assert!(self.has_family(name), "no family has {line}");
        let mut labels = split(labels);
        labels.retain(|label| !label.ends_with("=\"\""));
        labels.sort();
        let key = match labels.as_slice() {
            [] => name.to_owned(),
            labels => format!("{name}{{{}}}", labels.join(",")),
        };
        assert_eq!(self.samples.insert(key, value), None, "twice: {line}");
    }

    /// Whether the name is one that a family of its type may have.
    fn has_family(&self, name: &str) -> bool {
        let suffixes: [(&str, &[&str]); 4] = [
            ("counter", &["_total"]),
            ("gauge", &[""]),
            ("info", &["_info"]),
            ("histogram", &["_bucket", "_sum", "_count"]),
        ];
        suffixes.iter().any(|(kind, suffixes)| {
            suffixes.iter().any(|suffix| {
                let family = name.strip_suffix(suffix);
                family
                    .and_then(|family| self.types.get(family))
                    .map(String::as_str)
                    == Some(*kind)
            })
        })
    }
}

/// The labels; none of ours has a comma or a quote in its value.
fn split(labels: &str) -> Vec<String> {
    let labels = labels.split(',').filter(|label| !label.is_empty());
    let checked = labels.inspect(|label| {
        let value = label.split_once('=').map(|(_, value)| value);
        let quoted = value.is_some_and(|v| v.len() > 1 && v.starts_with('"') && v.ends_with('"'));
        assert!(quoted, "no label: {label}");
    });
    checked.map(str::to_owned).collect()
}
