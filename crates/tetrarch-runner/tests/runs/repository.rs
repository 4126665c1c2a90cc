//! A git repository as runs work in it.

use std::path::PathBuf;
use std::process::Command;

use tetrarch_core::brief::Worktree;
use tetrarch_core::order::Start;

use crate::stage::{Stage, shell};

/// A repository with a branch `main`, checked out.
pub(crate) struct Repository(pub(crate) PathBuf);

impl Repository {
    pub(crate) fn new(stage: &Stage) -> Self {
        Self::at(stage.dir.path().canonicalize().unwrap().join("repo"))
    }

    pub(crate) fn at(path: PathBuf) -> Self {
        let it = Self(path);
        std::fs::create_dir(&it.0).unwrap();
        it.git(&["init", "--quiet", "--initial-branch=main"]);
        it.write("a", "one\ntwo\nthree\n");
        it.write("src/b", "b\n");
        it.commit("first");
        it
    }

    pub(crate) fn git(&self, args: &[&str]) -> String {
        let mut command = Command::new("git");
        command.args(["-c", "user.name=Ada", "-c", "user.email=ada@example.com"]).args(args);
        command.current_dir(&self.0).env("GIT_CONFIG_GLOBAL", "/dev/null");
        let output = command.output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "git {args:?}: {error}");
        String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
    }

    pub(crate) fn write(&self, file: &str, text: &str) {
        let path = self.0.join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    pub(crate) fn commit(&self, message: &str) -> String {
        self.git(&["add", "--all"]);
        self.git(&["commit", "--quiet", "-m", message]);
        self.git(&["rev-parse", "HEAD"])
    }

    pub(crate) fn read(&self, file: &str) -> Option<String> {
        std::fs::read_to_string(self.0.join(file)).ok()
    }

    pub(crate) fn branches(&self) -> String {
        self.git(&["for-each-ref", "--format=%(refname:short)", "refs/heads/"])
    }

    /// A run of a script that works apart.
    pub(crate) fn apart(&self, script: &str) -> Start {
        let mut start = shell(script);
        start.epoch = 1;
        start.brief.workspace = self.0.to_str().unwrap().to_owned();
        start.brief.worktree = Worktree::Isolated;
        start
    }
}
