//! Aligned columns that fit a terminal.

use super::screen::{Screen, Style};

/// No column is cut to less than this.
const LEAST: usize = 8;

/// A piece of a row.
#[derive(Debug, Clone, Default)]
pub(super) struct Cell {
    text: String,
    style: Style,
}

/// Rows under a heading.
#[derive(Debug)]
pub(super) struct Table {
    rows: Vec<Vec<Cell>>,
    /// The column that is never cut.
    whole: usize,
}

// === impl Cell ===

impl Cell {
    pub(super) fn new(text: impl Into<String>) -> Self {
        Self::styled(text, Style::Plain)
    }

    pub(super) fn styled(text: impl Into<String>, style: Style) -> Self {
        let text = text.into();
        // A name is one word of one line, whatever somebody put into it.
        let text = text.chars().map(|c| if c.is_control() { '?' } else { c });
        Self {
            text: text.collect(),
            style,
        }
    }

    fn width(&self) -> usize {
        self.text.chars().count()
    }

    fn cut(&self, width: usize) -> String {
        if self.width() <= width {
            return self.text.clone();
        }
        let kept: String = self.text.chars().take(width.saturating_sub(1)).collect();
        format!("{kept}…")
    }
}

// === impl Table ===

impl Table {
    /// A table under this heading; the column of number `whole` is never cut.
    pub(super) fn new(heading: &[&str], whole: usize) -> Self {
        let heading = heading
            .iter()
            .map(|text| Cell::styled(*text, Style::Heading));
        Self {
            rows: vec![heading.collect()],
            whole,
        }
    }

    pub(super) fn push(&mut self, row: Vec<Cell>) {
        self.rows.push(row);
    }

    pub(super) fn render(&self, screen: Screen) -> String {
        let widths = self.fitting(screen.width);
        self.rows
            .iter()
            .map(|row| line(row, &widths, screen))
            .collect()
    }

    /// Takes from the widest column until all fit.
    fn fitting(&self, screen: Option<usize>) -> Vec<usize> {
        let mut widths = self.widths();
        let gaps = 2 * widths.len().saturating_sub(1);
        while screen.is_some_and(|screen| widths.iter().sum::<usize>() + gaps > screen) {
            let columns = widths.iter_mut().enumerate();
            let widest = columns
                .filter(|(column, _)| *column != self.whole)
                .max_by_key(|(_, width)| **width);
            match widest {
                Some((_, widest)) if *widest > LEAST => *widest -= 1,
                _ => break,
            }
        }
        widths
    }

    fn widths(&self) -> Vec<usize> {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or_default();
        let widest = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(Cell::width).max().unwrap_or_default()
        };
        (0..columns).map(widest).collect()
    }
}

fn line(row: &[Cell], widths: &[usize], screen: Screen) -> String {
    let mut line = String::new();
    for (index, (cell, width)) in row.iter().zip(widths).enumerate() {
        let text = cell.cut(*width);
        let is_last = index + 1 == row.len();
        let padding = if is_last {
            0
        } else {
            2 + width.saturating_sub(text.chars().count())
        };
        line.push_str(&screen.paint(&text, cell.style));
        line.push_str(&" ".repeat(padding));
    }
    line.push('\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new(&["POD", "CHECK"], 1);
        table.push(vec![Cell::new("web-7d9c-long-name"), Cell::new("ok")]);
        table.push(vec![Cell::new("a\nb"), Cell::new("-")]);
        table
    }

    #[test]
    fn columns_are_aligned() {
        assert_eq!(
            table().render(Screen::default()),
            "POD                 CHECK\nweb-7d9c-long-name  ok\na?b                 -\n"
        );
    }

    #[test]
    fn the_widest_column_is_cut_to_fit_the_terminal() {
        let narrow = Screen {
            width: Some(20),
            ..Screen::default()
        };
        assert_eq!(
            table().render(narrow),
            "POD            CHECK\nweb-7d9c-lon…  ok\na?b            -\n"
        );
    }
}
