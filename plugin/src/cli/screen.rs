//! What the output may look like: how wide, and whether in colour.

use std::{env, io::IsTerminal as _};

/// Where the output goes to.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Screen {
    /// In columns; `None`: it is no terminal, so nothing is cut or wrapped.
    pub(super) width: Option<usize>,
    pub(super) colour: bool,
}

/// How a piece of text is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Style {
    #[default]
    Plain,
    Heading,
    Good,
    Bad,
    Doubtful,
}

impl Screen {
    /// Standard output, as it is.
    pub(super) fn of_stdout() -> Self {
        if !std::io::stdout().is_terminal() {
            return Self::default();
        }
        let size = terminal_size::terminal_size();
        Self {
            width: size.map(|(width, _)| usize::from(width.0)),
            // https://no-color.org: set to anything but nothing.
            colour: env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
                && env::var_os("TERM").is_none_or(|term| term != "dumb"),
        }
    }

    /// The text in its style.
    pub(super) fn paint(self, text: &str, style: Style) -> String {
        let code = match style {
            Style::Plain => return text.to_owned(),
            Style::Heading => "1",
            Style::Good => "32",
            Style::Bad => "31",
            Style::Doubtful => "33",
        };
        if self.colour && !text.is_empty() {
            format!("\u{1b}[{code}m{text}\u{1b}[0m")
        } else {
            text.to_owned()
        }
    }

    /// The text wrapped at blanks, each line indented.
    pub(super) fn wrap(self, text: &str, indent: usize) -> String {
        let room = self
            .width
            .map_or(usize::MAX, |width| width.saturating_sub(indent).max(20));
        let blank = " ".repeat(indent);
        let mut lines: Vec<String> = Vec::new();
        for word in text.split(' ') {
            match lines.last_mut() {
                Some(line) if line.chars().count() + 1 + word.chars().count() <= room => {
                    line.push(' ');
                    line.push_str(word);
                }
                _ => lines.push(word.to_owned()),
            }
        }
        let lines = lines.iter().map(|line| format!("{blank}{line}\n"));
        lines.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_terminal_gets_colour_and_wrapping() {
        let file = Screen::default();
        assert_eq!(file.paint("ok", Style::Good), "ok");
        assert_eq!(file.wrap(&"word ".repeat(100), 2).lines().count(), 1);
        let terminal = Screen {
            width: Some(24),
            colour: true,
        };
        assert_eq!(terminal.paint("ok", Style::Good), "\u{1b}[32mok\u{1b}[0m");
        assert_eq!(
            terminal.wrap("rule 1 is missing: -p tcp -j RETURN", 4),
            "    rule 1 is missing:\n    -p tcp -j RETURN\n"
        );
    }
}
