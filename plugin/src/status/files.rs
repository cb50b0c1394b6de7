//! The directories that ADD needs.

use std::path::{Path, PathBuf};

use nix::unistd::{AccessFlags, access};

use super::Line;
use crate::record::DIRECTORY;

const EXECUTABLE: &str = "executable";
const RECORDS: &str = "records";

/// What the kernel appends to the path of a file that is no longer there.
const DELETED: &str = " (deleted)";

/// Whether the runtime will find this executable the next time. The installer may just have put
/// another in its place.
pub(super) fn executable() -> Line {
    match std::fs::read_link("/proc/self/exe") {
        Ok(path) => executable_at(&without_mark(&path)),
        Err(error) => Line::warning(
            EXECUTABLE,
            format!("its own path is not known: {error}"),
            "is /proc mounted?",
        ),
    }
}

fn executable_at(path: &Path) -> Line {
    let mend = "linkerd-cni-installer puts it there, is its pod running on this node?";
    let shown = path.display();
    match access(path, AccessFlags::X_OK) {
        Ok(()) if path.is_file() => Line::fine(EXECUTABLE, shown.to_string()),
        Ok(()) => Line::fault(EXECUTABLE, format!("{shown} is no file"), mend),
        Err(errno) => Line::fault(
            EXECUTABLE,
            format!("{shown} cannot be executed: {}", errno.desc()),
            mend,
        ),
    }
}

fn without_mark(path: &Path) -> PathBuf {
    let text = path.to_string_lossy();
    let path = text.strip_suffix(DELETED).unwrap_or(&text);
    PathBuf::from(path)
}

/// Whether ADD can write its record: without it CHECK and the people on the node know nothing.
pub(super) fn records() -> Line {
    records_in(Path::new(DIRECTORY))
}

fn records_in(directory: &Path) -> Line {
    let is_there = directory.symlink_metadata().is_ok();
    // ADD makes the directory if it is not there.
    let needed = match directory.parent() {
        Some(parent) if !is_there => parent,
        _ => directory,
    };
    let shown = needed.display();
    let mend = "it must be a directory that root can write to";
    if !needed.is_dir() {
        return Line::fault(RECORDS, format!("{shown} is no directory"), mend);
    }
    match access(needed, AccessFlags::W_OK | AccessFlags::X_OK) {
        Ok(()) => Line::fine(RECORDS, directory.display().to_string()),
        Err(errno) => Line::fault(
            RECORDS,
            format!("{shown} cannot be written to: {}", errno.desc()),
            mend,
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::Verdict;

    #[test]
    fn the_directory_of_records_need_not_be_there_yet() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("records");
        assert_eq!(records_in(&path).verdict, Verdict::Fine);
        std::fs::create_dir(&path).unwrap();
        assert_eq!(records_in(&path).verdict, Verdict::Fine);
        assert_eq!(records_in(&path.join("a/b")).verdict, Verdict::Fault);
        std::fs::remove_dir(&path).unwrap();
        std::fs::write(&path, "").unwrap();
        let line = records_in(&path);
        assert_eq!(line.verdict, Verdict::Fault);
        assert!(line.text.ends_with("records is no directory"), "{line:?}");
    }

    #[test]
    fn an_executable_that_is_gone_or_none_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("linkerd-cni");
        assert_eq!(executable_at(&path).verdict, Verdict::Fault);
        std::fs::write(&path, "").unwrap();
        assert_eq!(executable_at(&path).verdict, Verdict::Fault);
        assert_eq!(executable_at(Path::new("/bin/sh")).verdict, Verdict::Fine);
        assert_eq!(
            without_mark(Path::new("/opt/cni/bin/x (deleted)")),
            Path::new("/opt/cni/bin/x")
        );
    }
}
