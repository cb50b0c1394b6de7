//! The quoting of `iptables-save`: words separated by blanks, double quotes around those that
//! need them, a backslash before a quote or a backslash (`xtables_save_string`).

/// Splits a rule into its words; `None` if a quote is left open.
pub(super) fn split(text: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut chars = text.chars().peekable();
    while let Some(first) = chars.next_if(|_| true) {
        match first {
            ' ' => {}
            '"' => words.push(quoted(&mut chars)?),
            other => {
                let mut word = String::from(other);
                while let Some(next) = chars.next_if(|c| *c != ' ') {
                    word.push(next);
                }
                words.push(word);
            }
        }
    }
    Some(words)
}

fn quoted(chars: &mut impl Iterator<Item = char>) -> Option<String> {
    let mut word = String::new();
    loop {
        match chars.next()? {
            '"' => return Some(word),
            '\\' => word.push(chars.next()?),
            other => word.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_and_escapes_are_undone() {
        assert_eq!(
            split(r#"-m comment  --comment "a \"b\" \\ c" -j X"#).unwrap(),
            ["-m", "comment", "--comment", r#"a "b" \ c"#, "-j", "X"]
        );
        assert_eq!(split("").unwrap(), [""; 0]);
        assert_eq!(split(r#"--comment "open"#), None);
        assert_eq!(split(r#"--comment "open\"#), None);
    }
}
