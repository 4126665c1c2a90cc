//! Worktrees that are kept until somebody decides: how many a goal has.

use tetrarch_core::order::Start;
use tetrarch_runner::{Containment, worktrees};

use crate::repository::Repository;
use crate::stage::Stage;
use crate::worktree::{kept_in, work};

#[tokio::test]
async fn goal_with_many_undecided_changes_leaves_worktrees_to_others() {
    let mut stage = Stage::with(|config| config.worktrees_max = 3);
    let repository = Repository::new(&stage);
    let goal = repository.apart("true").epic;
    let of_it = |script: &str| Start { epic: goal, ..repository.apart(script) };
    for script in ["echo 1 > one", "echo 2 > two"] {
        stage.run(of_it(script)).await;
    }
    let error = stage.refused(of_it("echo 3 > three")).await;
    assert!(error.contains(&format!("goal {goal} has 2 of this host's 3 worktrees")), "{error}");
    assert!(error.contains("tetrarch change list"), "{error}");
    work(&mut stage, &repository, "echo 4 > four").await;
    let kept = worktrees(&kept_in(&stage), &Containment::default()).await;
    let of: Vec<bool> = kept.iter().map(|it| it.goal == goal.to_string()).collect();
    assert_eq!(of, [true, true, false]);
}
