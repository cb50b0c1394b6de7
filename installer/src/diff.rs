//! A unified diff of two texts, for `plan`.

const CONTEXT: usize = 3;

/// The difference as `diff -u` prints it, in one hunk. The texts differ in one
/// place, or little more: what is between the first and the last difference is
/// shown as removed and added.
#[must_use]
pub fn unified(old_name: &str, new_name: &str, old: &str, new: &str) -> String {
    let (a, b): (Vec<_>, Vec<_>) = (
        old.split_inclusive('\n').collect(),
        new.split_inclusive('\n').collect(),
    );
    let head = a.iter().zip(&b).take_while(|(x, y)| x == y).count();
    let tail = a[head..]
        .iter()
        .rev()
        .zip(b[head..].iter().rev())
        .take_while(|(x, y)| x == y)
        .count();
    let start = head.saturating_sub(CONTEXT);
    let (end_a, end_b) = (a.len() - tail, b.len() - tail);
    let after = &a[end_a..(end_a + CONTEXT).min(a.len())];
    let size = |end: usize| end - start + after.len();
    let mut out = format!("--- {old_name}\n+++ {new_name}\n");
    out += &format!(
        "@@ -{} +{} @@\n",
        range(start, size(end_a)),
        range(start, size(end_b))
    );
    lines(&mut out, ' ', &a[start..head]);
    lines(&mut out, '-', &a[head..end_a]);
    lines(&mut out, '+', &b[head..end_b]);
    lines(&mut out, ' ', after);
    out
}

fn range(start: usize, size: usize) -> String {
    format!("{},{size}", if size == 0 { start } else { start + 1 })
}

fn lines(out: &mut String, mark: char, lines: &[&str]) {
    for line in lines {
        out.push(mark);
        out.push_str(line);
        if !line.ends_with('\n') {
            out.push_str("\n\\ No newline at end of file\n");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_what_diff_prints() {
        assert_eq!(
            unified(
                "a",
                "b",
                "1\n2\n3\n4\n5\n6\n7\n8",
                "1\n2\n3\n4\nx\ny\n6\n7\n8"
            ),
            "--- a\n+++ b\n@@ -2,7 +2,8 @@\n 2\n 3\n 4\n-5\n+x\n+y\n 6\n 7\n 8\n\\ No newline at end of file\n"
        );
        assert_eq!(
            unified("/dev/null", "b", "", "x\n"),
            "--- /dev/null\n+++ b\n@@ -0,0 +1,1 @@\n+x\n"
        );
    }
}
