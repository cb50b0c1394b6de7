//! The keys `log_file` and `log_file_max_bytes` of the plugin's network configuration.

use std::path::PathBuf;

use serde_json::Value;

/// How large a log file becomes if nobody says.
pub const DEFAULT_MAX_BYTES: u64 = 10 << 20;

/// A log file on the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogFile {
    /// Where it is; absolute.
    pub path: PathBuf,
    /// How many bytes it has at the most before it becomes `PATH.1`.
    pub max_bytes: u64,
}

/// A value that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{key}: {value} is not {expected}")]
pub struct LogFileError {
    key: &'static str,
    value: Value,
    expected: &'static str,
}

// === impl LogFile ===

impl LogFile {
    /// Reads both values; one that is absent is `null`. Without a path there is no log file.
    ///
    /// # Errors
    /// A value of the wrong type, a path that is not absolute, or a size of nothing.
    pub fn read(path: &Value, max_bytes: &Value) -> Result<Option<Self>, LogFileError> {
        let max_bytes = match max_bytes {
            Value::Null => DEFAULT_MAX_BYTES,
            other => other.as_u64().filter(|bytes| *bytes > 0).ok_or_else(|| {
                refused(
                    "log_file_max_bytes",
                    other,
                    "a whole number of bytes above 0",
                )
            })?,
        };
        match path {
            Value::Null => Ok(None),
            Value::String(path) if path.is_empty() => Ok(None),
            Value::String(path) if path.starts_with('/') && !path.contains('\0') => {
                let path = path.into();
                Ok(Some(Self { path, max_bytes }))
            }
            other => Err(refused("log_file", other, "an absolute path on the host")),
        }
    }
}

fn refused(key: &'static str, value: &Value, expected: &'static str) -> LogFileError {
    LogFileError {
        key,
        value: value.clone(),
        expected,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_path_is_enough() {
        let read = |path, max| LogFile::read(&path, &max).unwrap();
        let file = |max_bytes| {
            let path = "/var/log/cni.log".into();
            Some(LogFile { path, max_bytes })
        };
        let path = || json!("/var/log/cni.log");
        assert_eq!(read(path(), Value::Null), file(10_485_760));
        assert_eq!(read(path(), json!(1)), file(1));
        assert_eq!(read(json!(""), json!(1)), None);
        assert_eq!(read(Value::Null, Value::Null), None);
    }

    #[test]
    fn what_cannot_be_used_is_named() {
        for (path, max, text) in [
            (
                json!("cni.log"),
                json!(1),
                "log_file: \"cni.log\" is not an absolute path",
            ),
            (json!(7), json!(1), "log_file: 7 is not"),
            (
                json!("/l"),
                json!(0),
                "log_file_max_bytes: 0 is not a whole number",
            ),
            (json!("/l"), json!(-1), "log_file_max_bytes: -1 is not"),
            (
                json!("/l"),
                json!("10"),
                "log_file_max_bytes: \"10\" is not",
            ),
            (json!(null), json!(1.5), "log_file_max_bytes: 1.5 is not"),
        ] {
            let error = LogFile::read(&path, &max).unwrap_err().to_string();
            assert!(error.starts_with(text), "{error}");
        }
    }
}
