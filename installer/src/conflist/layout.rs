//! How a file is laid out, so that what is added looks like the rest of it.

use super::scan::{Kind, Value, space};

/// Whitespace habits: line ends, indentation, the space after `:` and `,`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Line end and indentation of the place; `None` keeps to one line.
    lines: Option<Lines>,
    colon: &'static str,
    comma: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Lines {
    end: &'static str,
    base: String,
    unit: String,
}

// === impl Layout ===

impl Layout {
    /// Everything on one line, without a space.
    #[must_use]
    pub fn compact() -> Self {
        Self {
            lines: None,
            colon: ":",
            comma: ",",
        }
    }

    /// The layout of a document's own first level.
    pub(crate) fn of_document(text: &[u8], document: Value<'_>) -> Self {
        let gaps = Gaps::inside(text, document);
        let lines = gaps.first.contains('\n').then(|| Lines {
            end: line_end(&gaps.first),
            base: String::new(),
            unit: indentation(&gaps.first).to_owned(),
        });
        Self {
            lines,
            colon: if gaps.colon.is_empty() { ":" } else { ": " },
            comma: if gaps.comma.as_deref() == Some("") {
                ","
            } else {
                ", "
            },
        }
    }

    /// The layout of an element that follows `last` in a list, and the
    /// whitespace that parts the two.
    pub(crate) fn of_element(text: &[u8], document: Value<'_>, last: Value<'_>) -> (Self, String) {
        let mut layout = Self::of_document(text, document);
        let gap = before(text, last.span().start);
        let own = Gaps::inside(text, last).first;
        let base = if gap.contains('\n') {
            indentation(&gap).to_owned()
        } else {
            line_indentation(text, last.span().end)
        };
        if !gap.contains('\n') && !own.contains('\n') {
            layout.lines = None;
            return (layout, gap);
        }
        let unit = indentation(&own)
            .strip_prefix(base.as_str())
            .filter(|u| !u.is_empty());
        let document_unit = layout
            .lines
            .as_ref()
            .map(|l| l.unit.clone())
            .filter(|u| !u.is_empty());
        layout.lines = Some(Lines {
            end: line_end(if gap.contains('\n') { &gap } else { &own }),
            unit: unit
                .map(str::to_owned)
                .or(document_unit)
                .unwrap_or_else(|| "  ".to_owned()),
            base,
        });
        (layout, gap)
    }

    /// The same habits, `levels` deeper.
    pub(crate) fn deeper(&self, levels: usize) -> Self {
        let mut deeper = self.clone();
        if let Some(lines) = &mut deeper.lines {
            lines.base.push_str(&lines.unit.repeat(levels));
        }
        deeper
    }

    /// A line break and the indentation `depth` levels in, or nothing.
    pub(crate) fn break_at(&self, depth: usize) -> String {
        self.lines.as_ref().map_or_else(String::new, |l| {
            format!("{}{}{}", l.end, l.base, l.unit.repeat(depth))
        })
    }

    pub(crate) fn colon(&self) -> &'static str {
        self.colon
    }

    /// What parts two children: a comma, and a line break or a space.
    pub(crate) fn comma_at(&self, depth: usize) -> String {
        match &self.lines {
            Some(_) => format!(",{}", self.break_at(depth)),
            None => self.comma.to_owned(),
        }
    }

    /// Writes children a line each, where the layout has lines.
    pub(crate) fn block(
        &self,
        [open, close]: [char; 2],
        count: usize,
        depth: usize,
        out: &mut String,
        mut child: impl FnMut(usize, &mut String),
    ) {
        out.push(open);
        for i in 0..count {
            out.push_str(&if i == 0 {
                self.break_at(depth + 1)
            } else {
                self.comma_at(depth + 1)
            });
            child(i, out);
        }
        if count > 0 {
            out.push_str(&self.break_at(depth));
        }
        out.push(close);
    }

    /// Writes children on one line.
    pub(crate) fn line(
        &self,
        [open, close]: [char; 2],
        count: usize,
        out: &mut String,
        mut child: impl FnMut(usize, &mut String),
    ) {
        out.push(open);
        for i in 0..count {
            out.push_str(if i == 0 { "" } else { self.comma });
            child(i, out);
        }
        out.push(close);
    }
}

/// The whitespace around an object's first members.
#[derive(Default)]
struct Gaps {
    first: String,
    colon: String,
    comma: Option<String>,
}

impl Gaps {
    fn inside(text: &[u8], object: Value<'_>) -> Self {
        if object.kind() != Kind::Object {
            return Self::default();
        }
        let mut members = object.members();
        let Some((key, value)) = members.next() else {
            return Self::default();
        };
        Self {
            first: before(text, key.span().start),
            colon: before(text, value.span().start),
            comma: members
                .next()
                .map(|(key, _)| before(text, key.span().start)),
        }
    }
}

/// The whitespace that ends at a place.
fn before(text: &[u8], at: usize) -> String {
    let start = text[..at]
        .iter()
        .rposition(|b| space(&[*b], 0) == 0)
        .map_or(0, |n| n + 1);
    String::from_utf8_lossy(&text[start..at]).into_owned()
}

/// What stands after the last line end of a gap.
fn indentation(gap: &str) -> &str {
    gap.rsplit('\n').next().unwrap_or_default()
}

/// The whitespace at the beginning of the line on which a value ends.
fn line_indentation(text: &[u8], end: usize) -> String {
    let start = text[..end]
        .iter()
        .rposition(|b| *b == b'\n')
        .map_or(0, |n| n + 1);
    String::from_utf8_lossy(&text[start..space(text, start).min(end)]).into_owned()
}

fn line_end(gap: &str) -> &'static str {
    if gap.contains("\r\n") { "\r\n" } else { "\n" }
}
