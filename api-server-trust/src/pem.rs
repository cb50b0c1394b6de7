//! Blocks of PEM in any text, cut as Go's `encoding/pem` cuts them.

use base64::{
    Engine as _,
    alphabet::STANDARD,
    engine::{GeneralPurpose, GeneralPurposeConfig},
};

const BEGIN: &[u8] = b"-----BEGIN ";
const END: &[u8] = b"\n-----END ";
const DASHES: &[u8] = b"-----";

/// Go's `base64.StdEncoding` does not look at the bits that are left over.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true),
);

/// A block, or what was begun as one.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Block {
    /// In which line it begins, from 1.
    pub(crate) line: usize,
    /// Label and content, or why it is no block.
    pub(crate) content: Result<(String, Vec<u8>), &'static str>,
}

/// Every line that begins a block, and what became of it. Text between blocks is of no interest.
pub(crate) fn blocks(text: &[u8]) -> Vec<Block> {
    let begins: Vec<usize> = begins(text).collect();
    let ends = begins.iter().skip(1).copied().chain([text.len()]);
    let extents = begins.iter().zip(ends);
    extents
        .map(|(&from, to)| Block {
            line: 1 + text[..from].iter().filter(|byte| **byte == b'\n').count(),
            content: content(&text[from + BEGIN.len()..to]),
        })
        .collect()
}

/// Where blocks begin: at the start of a line.
fn begins(text: &[u8]) -> impl Iterator<Item = usize> {
    let starts = (0..text.len()).filter(|at| *at == 0 || text[at - 1] == b'\n');
    starts.filter(|at| text[*at..].starts_with(BEGIN))
}

/// What is behind `-----BEGIN `, up to the next block.
fn content(block: &[u8]) -> Result<(String, Vec<u8>), &'static str> {
    let (label, body) = line(block);
    let label = label
        .strip_suffix(DASHES)
        .ok_or("its first line does not end with -----")?;
    let end = find(block, END).ok_or("it has no end")?;
    // A block without content has the line that begins it right before the one that ends it.
    let body = &body[..body.len().saturating_sub(block.len() - end)];
    let last = block[end + END.len()..]
        .strip_prefix(label)
        .and_then(|rest| rest.strip_prefix(DASHES))
        .ok_or("its last line is not that of its first")?;
    if !line(last).0.is_empty() {
        return Err("text stands behind its end");
    }
    if body.contains(&b':') {
        return Err("it has headers");
    }
    let letters: Vec<u8> = body
        .iter()
        .copied()
        .filter(|byte| !byte.is_ascii_whitespace())
        .collect();
    let bytes = BASE64.decode(letters).map_err(|_| "it is not base64")?;
    Ok((String::from_utf8_lossy(label).into_owned(), bytes))
}

/// The first line, without what is blank at its end, and what follows it.
fn line(text: &[u8]) -> (&[u8], &[u8]) {
    let end = text.iter().position(|byte| *byte == b'\n');
    let (line, rest) = match end {
        Some(end) => (&text[..end], &text[end + 1..]),
        None => (text, &[][..]),
    };
    (line.trim_ascii_end(), rest)
}

fn find(text: &[u8], wanted: &[u8]) -> Option<usize> {
    text.windows(wanted.len()).position(|part| part == wanted)
}
