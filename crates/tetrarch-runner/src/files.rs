//! Which files a program may hand over: those inside its working directory (docs/stdio-protocol.md,
//! Files). Reads no content and stores nothing.

use std::io;
use std::path::{Path, PathBuf};

use tetrarch_core::brief::LONG_TEXTS;
use tetrarch_core::limits::LIST_MAX;
use tetrarch_core::order::LocalFile;

/// The media type of a file that was given none.
const UNKNOWN_MEDIA: &str = "application/octet-stream";

/// Why a file is not taken.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FileRefused {
    /// It cannot be looked at.
    #[error("cannot read {path}: {cause}; write the file before naming it")]
    Unreadable { path: String, cause: io::Error },
    /// It lies elsewhere once links are resolved.
    #[error("{path} is outside the working directory; copy it into the working directory")]
    Outside { path: String },
    /// It is a directory, a pipe or the like.
    #[error("{path} is not a regular file; pack a directory into one file")]
    NotAFile { path: String },
    /// It is too large.
    #[error(
        "{path} has {size} bytes; the limit of an artifact is {max}; split it, or raise runs.artifact_max of \
         the host"
    )]
    TooLarge { path: String, size: u64, max: u64 },
    /// There are too many.
    #[error("{path} exceeds the limit of {LIST_MAX} files of one run; pack them into one file")]
    TooMany { path: String },
    /// Its name is one that its session gives.
    #[error("an artifact of a program cannot be called {name:?}; choose another name")]
    Reserved { name: String },
    /// Its path is not text.
    #[error("the path {path} is not UTF-8; rename the file")]
    NotText { path: String },
}

/// Admits files of one run.
#[derive(Debug)]
pub(crate) struct Gate {
    root: PathBuf,
    bytes_max: u64,
    admitted: usize,
}

impl Gate {
    /// A gate for files inside `root`, an absolute path without links, of at most `bytes_max` each.
    pub(crate) fn new(root: PathBuf, bytes_max: u64) -> Self {
        Self { root, bytes_max, admitted: 0 }
    }

    /// Admits one file, `path` being relative to the working directory. The path it returns is
    /// absolute and without links.
    pub(crate) fn admit(
        &mut self,
        name: String,
        path: &str,
        media_type: Option<String>,
    ) -> Result<LocalFile, FileRefused> {
        let given = || path.to_owned();
        if LONG_TEXTS.contains(&name.as_str()) {
            return Err(FileRefused::Reserved { name });
        }
        if self.admitted >= LIST_MAX {
            return Err(FileRefused::TooMany { path: given() });
        }
        let real = self
            .root
            .join(Path::new(path))
            .canonicalize()
            .map_err(|cause| FileRefused::Unreadable { path: given(), cause })?;
        if !real.starts_with(&self.root) {
            return Err(FileRefused::Outside { path: given() });
        }
        let facts =
            real.metadata().map_err(|cause| FileRefused::Unreadable { path: given(), cause })?;
        if !facts.is_file() {
            return Err(FileRefused::NotAFile { path: given() });
        }
        let (size, max) = (facts.len(), self.bytes_max);
        if size > max {
            return Err(FileRefused::TooLarge { path: given(), size, max });
        }
        let path = real.to_str().ok_or_else(|| FileRefused::NotText { path: given() })?.to_owned();
        self.admitted += 1;
        let media_type = media_type.unwrap_or_else(|| UNKNOWN_MEDIA.to_owned());
        Ok(LocalFile { name, path, media_type })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn only_regular_files_inside_the_directory_are_admitted() {
        let place = tempfile::tempdir().unwrap();
        let top = place.path().canonicalize().unwrap();
        let root = top.join("work");
        fs::create_dir_all(root.join("sub")).unwrap();
        fs::write(root.join("sub/a.txt"), "a").unwrap();
        fs::write(top.join("secret"), "s").unwrap();
        fs::create_dir(top.join("work-beside")).unwrap();
        fs::write(top.join("work-beside/b"), "b").unwrap();
        symlink(top.join("secret"), root.join("link")).unwrap();
        symlink("sub/a.txt", root.join("inner")).unwrap();
        let mut gate = Gate::new(root.clone(), 1);
        let mut admit = |path: &str| gate.admit("n".to_owned(), path, None);

        let inside = root.join("sub/a.txt").to_str().unwrap().to_owned();
        assert_eq!(admit("sub/a.txt").unwrap().path, inside);
        assert_eq!(admit("inner").unwrap().path, inside);
        assert_eq!(admit(&inside).unwrap().media_type, UNKNOWN_MEDIA);
        for escape in ["../secret", "link", "/etc/passwd", "../work-beside/b", "sub/../../secret"] {
            let refused = admit(escape).unwrap_err();
            assert!(matches!(refused, FileRefused::Outside { .. }), "{escape}: {refused}");
        }
        assert!(matches!(admit("sub").unwrap_err(), FileRefused::NotAFile { .. }));
        assert!(matches!(admit("none").unwrap_err(), FileRefused::Unreadable { .. }));
        for name in LONG_TEXTS {
            let refused = gate.admit(name.to_owned(), "sub/a.txt", None).unwrap_err();
            assert!(matches!(refused, FileRefused::Reserved { .. }), "{refused}");
        }
    }

    #[test]
    fn files_are_bounded_in_size_and_number() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path().canonicalize().unwrap();
        fs::write(root.join("large"), "12345").unwrap();
        fs::write(root.join("small"), "1234").unwrap();
        let mut gate = Gate::new(root, 4);
        let refused = gate.admit(String::new(), "large", None).unwrap_err();
        let why = "large has 5 bytes; the limit of an artifact is 4; split it, or raise runs.artifact_max of \
                   the host";
        assert_eq!(refused.to_string(), why);
        for _ in 0..LIST_MAX {
            gate.admit(String::new(), "small", None).unwrap();
        }
        let refused = gate.admit(String::new(), "small", None).unwrap_err();
        assert!(matches!(refused, FileRefused::TooMany { .. }), "{refused}");
    }
}
