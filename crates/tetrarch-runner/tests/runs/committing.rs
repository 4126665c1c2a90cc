//! Programs that commit by themselves, in repositories that isolation keeps them from writing to.

use std::fs;
use std::path::Path;

use tetrarch_core::change::Made;
use tetrarch_core::order::{Exit, RunnerEvent};
use tetrarch_runner::{Containment, probe, worktrees};

use crate::repository::Repository;
use crate::stage::{Seen, Stage};

/// Not where temporary files are, which every program may write.
fn elsewhere() -> tempfile::TempDir {
    tempfile::tempdir_in("/var/tmp").unwrap()
}

/// A runner and a repository in a place, of which the runner keeps to itself what lies in `data`.
fn stage_in(place: &Path, repository: &str) -> (Stage, Repository) {
    let data = place.join("data");
    let stage = Stage::with(|config| {
        config.worktrees_dir = data.join("worktrees");
        config.containment.hidden = vec![data.clone()];
        config.containment.required = all_layers();
    });
    fs::create_dir_all(&data).unwrap();
    (stage, Repository::at(place.join(repository)))
}

/// Whether this machine has every layer, so that isolation may be required.
fn all_layers() -> bool {
    probe(&Containment::default(), None).layers.iter().all(|layer| layer.active)
}

fn made(seen: &Seen) -> &Made {
    let made = seen.events.iter().find_map(|event| {
        if let RunnerEvent::Changed { made, .. } = event { Some(&**made) } else { None }
    });
    made.unwrap_or_else(|| panic!("{seen:?}"))
}

#[tokio::test]
async fn commit_of_a_program_is_in_its_proposal_wherever_the_repository_lies() {
    // Beside what the host keeps to itself, and in it.
    for lies in ["repo", "data/repo"] {
        let place = elsewhere();
        let (mut stage, repository) = stage_in(place.path(), lies);
        let script = "set -e; echo four >> a; git add a; git commit -qm 'four lines'; \
                      git log --format=%s main..; git status --porcelain; echo late > late";
        let start = repository.apart(script);
        let seen = stage.run(start.clone()).await;
        assert_eq!(seen.exit, Exit::Code(0), "{lies}: {seen:?}");
        assert_eq!(seen.made().deliverable, "four lines", "{lies}");
        let made = made(&seen);
        assert_eq!(made.action.files, ["a", "late"]);
        let said = repository.git(&["log", "--format=%an: %s", &format!("main..{}", made.branch)]);
        let own = format!("{}: four lines", start.agent);
        assert!(said.ends_with(&own) && said.lines().count() == 2, "{said}");
        assert_eq!(repository.git(&["fsck", "--strict", "--no-dangling"]), "");
        // The next session finds both commits, and goes on from them.
        let mut next = repository.apart(
            "set -e; git status --porcelain; git log --format=%s main.. | wc -l; echo 5 >> a; git commit -qam five",
        );
        (next.agent, next.epoch) = (start.agent, 2);
        let seen = stage.run(next).await;
        assert_eq!(
            (seen.exit.clone(), seen.made().deliverable.trim()),
            (Exit::Code(0), "2"),
            "{seen:?}"
        );
        let said = repository.git(&["log", "--format=%s", &format!("main..{}", made.branch)]);
        assert!(said.starts_with("five\n") && said.lines().count() == 3, "{said}");
    }
}

/// What it tries in the repository that its worktree is of; each line says whether it was done.
const ESCAPES: &str = r#"tried() { if (eval "$2") > /dev/null 2>&1; then echo "$1: done"; else echo "$1: refused"; fi; }
tried hook "echo x > $repo/.git/hooks/post-checkout"
tried config "git --git-dir=$repo/.git config core.fsmonitor x"
tried branch "git --git-dir=$repo/.git branch stolen"
tried main "git --git-dir=$repo/.git update-ref refs/heads/main HEAD~1"
tried packed "echo >> $repo/.git/packed-refs"
tried objects "echo x | git --git-dir=$repo/.git hash-object -w --stdin"
tried about "echo x > $PWD/../about.json"
tried file "echo x > $repo/a"
tried own "git branch mine"
"#;

#[tokio::test]
async fn program_that_commits_does_not_write_to_the_repository() {
    let place = elsewhere();
    let (mut stage, repository) = stage_in(place.path(), "repo");
    repository.write("a", "two\n");
    repository.commit("second");
    let contents = || {
        let mut command = std::process::Command::new("find");
        let found =
            command.arg(&repository.0).args(["-type", "f", "-exec", "sha256sum", "{}", "+"]);
        String::from_utf8(found.output().unwrap().stdout).unwrap()
    };
    let script = format!("repo={}; {ESCAPES}", repository.0.display());
    let names = ["hook", "config", "branch", "main", "packed", "objects", "about", "file"];
    let before = contents();
    let seen = stage.run(repository.apart(&script)).await;
    if seen.isolation().contains("; landlock (") {
        let expected: Vec<String> = names.iter().map(|name| format!("{name}: refused")).collect();
        let said = &seen.made().deliverable;
        assert_eq!(said.trim(), format!("{}\nown: done", expected.join("\n")), "{seen:?}");
        assert_eq!(contents(), before);
    }
    // Without the layer each of them is done.
    let mut open = Stage::with(|config| config.containment.writable = vec!["/".into()]);
    let seen = open.run(repository.apart(&script)).await;
    let expected: Vec<String> = names.iter().map(|name| format!("{name}: done")).collect();
    assert_eq!(seen.made().deliverable.trim(), format!("{}\nown: done", expected.join("\n")));
}

#[tokio::test]
async fn repository_configuration_of_a_program_is_ignored() {
    let place = elsewhere();
    let (mut stage, repository) = stage_in(place.path(), "repo");
    let kept = place.path().join("data/trap");
    let trap = format!("echo x > {}", kept.display());
    // A blob whose content is not what its name says, under the name of one that is to come.
    let script = format!(
        "set -e; dir=$(git rev-parse --absolute-git-dir)
        echo good > f; id=$(git hash-object f); git add f; git commit -qm one
        blob=$dir/objects/$(echo $id | cut -c1-2)/$(echo $id | cut -c3-)
        echo evil > g; evil=$(git hash-object -w g); rm -f $blob
        cp $dir/objects/$(echo $evil | cut -c1-2)/$(echo $evil | cut -c3-) $blob; rm g
        for key in core.fsmonitor core.hooksPath core.sshCommand core.alternateRefsCommand core.pager; do
          git config $key '{trap}'; done
        git config alias.pack-objects '!{trap}'; git config uploadpack.packObjectsHook '{trap}'"
    );
    let seen = stage.run(repository.apart(&script)).await;
    assert_eq!(seen.exit, Exit::Code(0), "{seen:?}");
    assert!(!kept.exists());
    let made = made(&seen);
    assert_eq!(made.action.files, ["f"]);
    assert_eq!(repository.git(&["show", &format!("{}:f", made.branch)]), "good");
    assert_eq!(repository.git(&["fsck", "--strict", "--no-dangling"]), "");
    let place =
        worktrees(&place.path().join("data/worktrees"), &Containment::default()).await.remove(0);
    // What cannot be read is kept as files.
    fs::write(place.dir.join("git/HEAD"), "nonsense").unwrap();
    let mut next = repository.apart("echo more > more");
    (next.agent, next.epoch) = (place.agent.parse().unwrap(), 2);
    assert_eq!(self::made(&stage.run(next).await).action.files, ["f", "more"]);
}
