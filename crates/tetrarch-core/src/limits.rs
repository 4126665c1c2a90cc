//! Every bound of the system, with its unit: the one home (spec 01). No logic here.

use crate::time::Millis;

/// Output of a program that is no event is in its journal after this long at the latest: it is what is
/// read after a crash.
pub const LOG_JOURNALED_WITHIN: Millis = Millis::from_secs(1);

/// Deepest `max_depth`: four levels, 0 to 3 (spec 03).
pub const DEPTH_CEILING: u8 = 3;
/// Concurrent sub-agents per parent (spec 03).
pub const CHILDREN_MAX: usize = 3;
/// Sub-agents one request may ask for (spec 03).
pub const SUBAGENTS_PER_REQUEST_MAX: usize = 16;
/// Spawn requests of one parent that may wait (spec 03).
pub const QUEUED_SPAWNS_MAX: usize = 16;
/// Bytes of a spawn request that may wait: so many of each parent are kept.
pub const QUEUED_SPAWN_BYTES_MAX: usize = 16 * 1024;
/// Longest `spawn_reason`, in bytes (spec 03).
pub const SPAWN_REASON_BYTES_MAX: usize = 2 * 1024;
/// Inputs one commit may cover (spec 02).
pub const COMMIT_INPUTS_MAX: usize = 256;
/// Largest encoded commit, in bytes (spec 02).
pub const COMMIT_BYTES_MAX: usize = 448 * 1024;
/// What one decision may write, in bytes: three quarters of a commit, so that it fits beside what
/// others of its group wrote.
pub const STEP_BYTES_MAX: usize = COMMIT_BYTES_MAX / 4 * 3;
/// What recovered agents' briefs may take of one decision, in bytes.
pub const RECOVERED_BYTES_MAX: usize = STEP_BYTES_MAX / 2;
/// Largest encoded record, in bytes (spec 02).
pub const RECORD_BYTES_MAX: usize = 64 * 1024;
/// Largest mail body, in bytes (spec 09).
pub const MAIL_BYTES_MAX: usize = 256 * 1024;
/// Sessions that may die while they handle a message; with the last of them it is set aside (spec 02,
/// Inbox).
pub const FAILURES_OF_A_MESSAGE_MAX: u32 = 5;
/// Messages of one inbox that count as being handled, and whose failures are remembered.
pub const MESSAGES_IN_HAND_MAX: usize = 64;
/// Longest message id or topic that is repeated in a receipt, in bytes.
pub const MESSAGE_ID_BYTES_MAX: usize = 512;
/// Receipts that a session owes before it tells of the earliest without waiting.
pub const RECEIPTS_OWED_MAX: usize = 256;
/// Messages that a program is given before it has taken the first of them; more are left where they are
/// (docs/decisions/0103).
pub const MAIL_IN_HAND_MAX: usize = 64;
/// Messages of one sender that an agent may leave unread; of whoever has written more, requests are refused
/// (spec 02, Inbox).
pub const UNREAD_MAX: u64 = 10_000;
/// Largest control message, in bytes (spec 09).
pub const CONTROL_BYTES_MAX: usize = 64 * 1024;
/// Largest request, operation or report, in bytes: what their stream takes (spec 09).
pub const REQUEST_BYTES_MAX: usize = MAIL_BYTES_MAX;
/// Reports of one host that go out as one message (spec 02, Few messages).
pub const HOST_REPORTS_MAX: usize = 64;
/// Largest plan event, in bytes (spec 02, the bound of a plan).
pub const PLAN_EVENT_BYTES_MAX: usize = COMMIT_BYTES_MAX;
/// Largest entry of a run's journal, in bytes.
pub const JOURNAL_ENTRY_BYTES_MAX: usize = 512 * 1024;
/// Agents that one decision gives a next session. The rest waits for the next tick, which follows.
pub const RECOVERED_MAX: usize = 16;
/// Agents of an ended life of a host that one decision deals with, whatever becomes of them.
pub const LOST_MAX: usize = 64;
/// Decisions remembered by request id (spec 03).
pub const DECISIONS_MAX: usize = 1_000_000;
/// How old a request that only reads may be when it is answered: whoever asked waits no longer.
pub const ANSWERED_WITHIN: Millis = Millis::from_secs(60);
/// Journals that an agent outside keeps of its own work, which no run on the ledger has.
pub const OWN_JOURNALS_MAX: usize = 1_000;
/// Requests a second that one sender outside may ask, unless configured (spec 09, On the bus).
pub const REQUESTS_PER_SECOND: u64 = 1_000;
/// How many decisions are remembered for as long as that, the latest: what is beyond goes before its time, after
/// [`DECISION_LEAST`].
pub const DECISIONS_KEPT_MAX: usize = 100_000;
/// How long a decision is remembered however many there are: longer than its sender asks again.
pub const DECISION_LEAST: Millis = Millis::from_secs(300);
/// How long a decision is remembered (spec 03).
pub const DECISION_KEPT: Millis = Millis::from_secs(24 * 3600);
/// How long terminated agents, ended runs and their assignments are kept (spec 02, Streams).
pub const ENDED_KEPT: Millis = Millis::from_secs(7 * 24 * 3600);
/// How long closed goals are kept: as long as their runs' journals (spec 02, Streams).
pub const GOAL_KEPT: Millis = Millis::from_secs(30 * 24 * 3600);
/// How many agents, runs, assignments, questions and changes that are over are kept, the latest: what is
/// beyond goes before its time, after [`ENDED_LEAST`].
pub const ENDED_MAX: usize = 10_000;
/// How many closed goals are kept, the latest, in the same way.
pub const GOALS_MAX: usize = 1_000;
/// How many goals of a project are open at once: each is in the owner's memory.
pub const OPEN_GOALS_MAX: usize = 500;
/// How long what is over is kept however much of it there is: until whoever waited for it has seen it.
pub const ENDED_LEAST: Millis = Millis::from_secs(5 * 60);
/// How many goals of a project may have closed within [`ENDED_LEAST`]: they are in the owner's memory.
pub const CLOSED_GOALS_MAX: usize = 1_000;
/// Agents, runs and assignments that one decision forgets. The rest is for the next tick.
pub const FORGOTTEN_MAX: usize = 256;
/// Decisions that one decision forgets. The rest is for the next tick.
pub const DECISIONS_FORGOTTEN_MAX: usize = 1_000;
/// Closed goals that one decision looks at in order to forget one.
pub const GOALS_LOOKED_AT: usize = 16;
/// What is to be forgotten may stay so long after its time: until the next tick that comes anyhow.
pub const FORGOTTEN_WITHIN: Millis = Millis::from_secs(120);
/// Entries between two snapshots (spec 02, Snapshots).
pub const SNAPSHOT_ENTRIES: u64 = 100_000;
/// Time between two snapshots (spec 02, Snapshots).
pub const SNAPSHOT_EVERY: Millis = Millis::from_secs(7 * 24 * 3600);
/// Bytes of one part of a snapshot; the last record may go beyond.
pub const SNAPSHOT_PART_BYTES: usize = 8 * 1024 * 1024;
/// Parts of one snapshot: their names, and those of the one before, have to fit into a record.
pub const SNAPSHOT_PARTS_MAX: usize = 400;
/// How long the ledger is kept, unless configured (spec 02, Streams).
pub const LEDGER_KEPT: Millis = Millis::from_secs(30 * 24 * 3600);
/// How long an artifact that nothing names is kept (spec 06, Artifacts).
pub const UNNAMED_KEPT: Millis = Millis::from_secs(24 * 3600);
/// Share of the ledger's room, in thousandths, at which it is trimmed early (spec 02, Snapshots).
pub const LEDGER_FULL: u32 = 800;
/// Phases of a plan (spec 05).
pub const PHASES_MAX: usize = 5;
/// Tasks of a phase (spec 05).
pub const TASKS_MAX: usize = 7;
/// Subtasks of a task (spec 05).
pub const SUBTASKS_MAX: usize = 7;
/// Highest number of a node's id that somebody may give; children get higher ones by themselves.
pub const NODE_NUMBER_MAX: u32 = 65_535;
/// Nodes of a plan that are neither done nor given up.
pub const PLAN_NODES_MAX: usize = 600;
/// Nodes of ended children that were asked for without one: the latest stay in their plan (spec 05).
pub const ENDED_CHILDREN_KEPT: usize = 32;
/// Nodes up to which a plan's events tell every one of them (spec 05, Plan events).
pub const FULL_EVENT_NODES_MAX: usize = 64;
/// Drafts of one epic that nobody has decided on yet.
pub const DRAFTS_OPEN_MAX: usize = 8;
/// Drafts of one epic that are kept; the oldest decided ones give way.
pub const DRAFTS_KEPT_MAX: usize = 32;
/// Definitions that one draft proposes, in bytes: a draft is one record, with some fields besides.
pub const DRAFT_BYTES_MAX: usize = RECORD_BYTES_MAX - 12 * 1024;
/// Instruction text, in bytes (spec 05).
pub const INSTRUCTION_BYTES_MAX: usize = 16 * 1024;
/// Summaries, in bytes (spec 05).
pub const SUMMARY_BYTES_MAX: usize = 8 * 1024;
/// What a goal says of its repository, in bytes (spec 05, Records).
pub const REPO_CONTEXT_BYTES_MAX: usize = 4 * 1024;
/// A rough estimate of a node's work, in bytes (spec 05, Records).
pub const EFFORT_BYTES_MAX: usize = 256;
/// Any other text, in bytes (spec 05).
pub const TEXT_BYTES_MAX: usize = 4 * 1024;
/// What a profile is for, in bytes.
pub const PROFILE_DESCRIPTION_BYTES_MAX: usize = 256;
/// A note, in bytes.
pub const NOTE_BYTES_MAX: usize = 8 * 1024;
/// Notes of a project.
pub const NOTES_MAX: usize = 256;
/// Words that notes are searched for at a time, and their bytes: each is looked for in every note of the project.
pub const NOTE_WORDS_MAX: usize = 8;
/// See [`NOTE_WORDS_MAX`].
pub const NOTE_WORDS_BYTES_MAX: usize = 256;
/// Notes that a brief names.
pub const BRIEF_NOTES_MAX: usize = 16;
/// Rules on what tools are called with, in one profile.
pub const PERMISSION_RULES_MAX: usize = 32;
/// Words that one of them matches.
pub const PERMISSION_WORDS_MAX: usize = 16;
/// Servers of the Model Context Protocol that a profile names.
pub const MCP_SERVERS_MAX: usize = 16;
/// Longest name of one of them, in bytes: with the name of a tool it is one that every provider takes.
pub const MCP_SERVER_NAME_BYTES_MAX: usize = 16;
/// Profiles that a session is told of when it may ask for agents.
pub const PROFILES_TOLD_MAX: usize = 40;
/// What roll-ups say together when one commit settles many places at once, in bytes.
pub const ROLL_UPS_BYTES_MAX: usize = 4 * SUMMARY_BYTES_MAX;
/// Entries of a list (spec 05).
pub const LIST_MAX: usize = 200;
/// Deliverable kept inside a record, in bytes; a larger one is an artifact.
pub const DELIVERABLE_BYTES_MAX: usize = 4 * 1024;
/// What is kept of a result beside its deliverable and its artifacts, in bytes of texts; the rest
/// is cut, and says so.
pub const RESULT_WORDS_MAX: usize = 16 * 1024;
/// What is kept of a result's list of artifacts, in bytes.
pub const ARTIFACT_LIST_BYTES_MAX: usize = 32 * 1024;
/// What a node keeps of what its last attempt failed of, in bytes: every plan event repeats it.
pub const FINDINGS_BYTES_MAX: usize = 1024;
/// What the answer to an operation brings besides its words, in bytes of JSON: the decision on it
/// is remembered with it.
pub const ANSWER_BYTES_MAX: usize = 32 * 1024;
/// Recommendations that an answer brings unless more are asked for.
pub const RECOMMENDED: usize = 10;
/// Schedules there may be.
pub const SCHEDULES_MAX: usize = 1_000;
/// Schedules of one owner.
pub const SCHEDULES_OWN_MAX: usize = 100;
/// Plan that a schedule may carry, in bytes: what comes of it has to fit into one decision.
pub const SCHEDULE_PLAN_BYTES_MAX: usize = 32 * 1024;
/// Shortest interval of a schedule.
pub const INTERVAL_MIN: Millis = Millis::from_secs(1);
/// Shortest interval of a schedule of goals, as often as cron can: each firing writes the plan down again and starts
/// agents.
pub const GOAL_INTERVAL_MIN: Millis = Millis::from_secs(60);
/// Longest interval of a schedule.
pub const INTERVAL_MAX: Millis = Millis::from_secs(366 * 24 * 3600);
/// Schedules that one decision begins. The rest is for the next tick, which follows at once.
pub const FIRED_MAX: usize = 16;
/// Bytes that one decision writes for schedules, about; one of them may go beyond.
pub const FIRED_BYTES_MAX: usize = STEP_BYTES_MAX / 4;
/// Answers to choose from that a question may have, in bytes.
pub const OPTIONS_BYTES_MAX: usize = 8 * 1024;
/// Deliverables that a brief repeats of the nodes it depends on, in bytes in all; of what is
/// beyond, only the beginning.
pub const INPUTS_BYTES_MAX: usize = 32 * 1024;
/// Output of a program that speaks no protocol that becomes its deliverable, in bytes (spec 06).
pub const OUTPUT_TAIL_BYTES: usize = 64 * 1024;
/// One line of an editor, in bytes: many times a prompt.
pub const EDITOR_LINE_BYTES_MAX: usize = 1024 * 1024;
/// Pause after a connection that could not be taken, as when a process has no descriptor left.
pub const ACCEPT_PAUSE: Millis = Millis(100);
/// One line of a program's output, in bytes; the rest of a longer one is dropped and counted.
pub const LINE_BYTES_MAX: usize = 256 * 1024;
/// Size of one artifact, in bytes, unless configured (spec 06).
pub const ARTIFACT_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Attempts at a node before it is blocked, unless the plan says otherwise.
pub const ATTEMPTS_DEFAULT: u32 = 2;
/// Attempts a plan may allow for one node.
pub const ATTEMPTS_MAX: u32 = 10;
/// How long a specialist waits for its sponsor before its host reports silence (spec 03).
pub const SPONSOR_ANSWER_WITHIN: Millis = Millis::from_secs(60);
/// Graceful stop: time to reach a boundary (spec 06).
pub const DRAIN: Millis = Millis::from_secs(30);
/// Time between TERM and KILL (spec 06).
pub const KILL_GRACE: Millis = Millis::from_secs(5);
/// A program may take this long to come up, unless configured (spec 06).
pub const SPAWNING_MAX: Millis = Millis::from_secs(60);
/// A question may stand this long, unless configured (spec 06).
pub const AWAITING_INPUT_MAX: Millis = Millis::from_secs(24 * 3600);
/// A run may be blocked this long, unless configured (spec 06).
pub const BLOCKED_MAX: Millis = Millis::from_secs(3600);
/// A run may summarise its context this long, unless configured (spec 06).
pub const COMPACTING_MAX: Millis = Millis::from_secs(600);
/// Highest epoch that a lease may tell. None is ever counted that far, and there is room above it.
pub const LEASE_EPOCH_MAX: u64 = u64::MAX / 2;
/// An external agent may be offline this long before it is given up (spec 03).
pub const UNREGISTERED_MAX: Millis = Millis::from_secs(600);
/// Deadlines that one decision acts on. The rest is for the next tick, which follows at once.
pub const OVERDUE_MAX: usize = 16;
/// Agents placed on one core, for a host without a configured capacity (spec 03).
pub const CAPACITY_PER_CORE: u32 = 4;
/// Liveness window unless configured (spec 04).
pub const WINDOW: Millis = Millis::from_secs(5);
/// Shortest liveness window (spec 04).
pub const WINDOW_MIN: Millis = Millis(50);
/// Longest liveness window (spec 04).
pub const WINDOW_MAX: Millis = Millis::from_secs(60);
/// Windows missed from which a session is stale (spec 04).
pub const STALE_WINDOWS: u64 = 1;
/// Windows missed from which a session is offline (spec 04).
pub const OFFLINE_WINDOWS: u64 = 3;
/// Windows after the last acknowledged renewal of its host's lease at which a program is frozen
/// (spec 04).
pub const FREEZE_WINDOWS: u32 = 2;
/// Windows in which a session's first heartbeat has to come, unless configured (spec 04).
pub const REGISTER_WINDOWS: u64 = 6;
/// The same while its host prepares it, a worktree for instance (spec 04).
pub const PREPARING: Millis = Millis::from_secs(60);
/// Active agents below which silence is never a mass failure (spec 04).
pub const MASS_AGENTS_MIN: u64 = 10;
/// Hosts below which silence is never a mass failure (spec 04).
pub const MASS_HOSTS_MIN: usize = 2;
/// Share of active agents, in thousandths, above which silence is a mass failure, unless
/// configured (spec 04).
pub const MASS_SHARE: u32 = 300;
/// Agents replaced in a second after a mass failure, unless configured (spec 04).
pub const REPLACEMENTS_PER_SECOND: u32 = 50;
/// Requests for which others have to work that a program may make at once
/// (docs/decisions/0053).
pub const ASKS_AT_ONCE: u64 = 50;
/// Those it may make in a second after that.
pub const ASKS_PER_SECOND: u64 = 50;
/// States of its own (`blocked`, `unblocked`) that a program may tell at once: each is a commit of the owner's.
pub const STATES_AT_ONCE: u64 = 50;
/// Those it may tell in a second after that.
pub const STATES_PER_SECOND: u64 = 5;
/// Bytes of checkpoints that a program may have kept at once: its journal has them all until the run is over.
pub const CHECKPOINT_BYTES_AT_ONCE: u64 = 64 * 1024 * 1024;
/// Those it may have kept in a second after that.
pub const CHECKPOINT_BYTES_PER_SECOND: u64 = 1024 * 1024;
/// Charged failures of a parent's children that are borne, unless configured (spec 04).
pub const RESTARTS_MAX: u32 = 3;
/// The time they are counted over, unless configured (spec 04).
pub const RESTART_WINDOW: Millis = Millis::from_secs(60);
/// Charged failures of one task that are borne (spec 04).
pub const TASK_RESTARTS_MAX: u32 = 3;
/// The time they are counted over (spec 04).
pub const TASK_RESTART_WINDOW: Millis = Millis::from_secs(72 * 3600);
/// How often an answer of the planner that is not valid is sent back, unless configured (spec 05).
pub const REPAIRS_MAX: u32 = 2;
/// What the planner is told of a goal or a task, in bytes.
pub const PLANNER_INPUT_BYTES_MAX: usize = 6 * 1024;
/// Longest answer of the planner that is read, in bytes: it is kept in a record.
pub const PLANNER_ANSWER_BYTES_MAX: usize = 40 * 1024;
/// What is kept of what was wrong with the planner's answers, in bytes.
pub const PLANNER_PROBLEMS_BYTES_MAX: usize = 4 * 1024;
/// What is repeated to the planner of an answer that is not valid, in bytes.
pub const PLANNER_REPEAT_BYTES_MAX: usize = 16 * 1024;
/// Entries of a list of words in an answer of the planner.
pub const PLANNER_LIST_MAX: usize = 20;
/// Questions to the planner about one assignment; those that were dropped are asked again.
pub const REPLANS_MAX: usize = 3;
/// How long an assignment may show nothing before it is stalled, unless configured (spec 05).
pub const IDLE_AFTER: Millis = Millis::from_secs(15 * 60);
/// Status requests and repetitions before the ladder goes on, unless configured (spec 05).
pub const RETRIES_MAX: u32 = 2;
/// The same instruction is not sent again sooner, unless configured (spec 05).
pub const RESEND_AFTER: Millis = Millis::from_secs(5 * 60);
/// Status requests and repetitions that a node's own recovery policy may ask for.
pub const RECOVERY_RETRIES_MAX: u32 = 100;
/// The shortest time that a node's own recovery policy may name.
pub const RECOVERY_TIME_MIN: Millis = Millis::from_secs(1);
/// The longest time that a node's own recovery policy may name.
pub const RECOVERY_TIME_MAX: Millis = Millis::from_secs(30 * 24 * 3600);
/// The longest wait after the first attempt at recovery, unless configured (spec 05).
pub const BACKOFF_BASE: Millis = Millis::from_secs(2 * 60);
/// The longest wait after any attempt at recovery, unless configured (spec 05).
pub const BACKOFF_MAX: Millis = Millis::from_secs(30 * 60);
/// Share of its rank that a node hands on to what it depends on (spec 05, Insights).
pub const PAGERANK_DAMPING: f64 = 0.85;
/// Ranks that move by less in all are settled (spec 05, Insights).
pub const PAGERANK_TOLERANCE: f64 = 1e-6;
/// Rounds after which ranks are taken as they are; with the damping a hundred settle any graph.
pub const PAGERANK_ROUNDS_MAX: usize = 200;
/// How long a question of the overseer waits for a turn of its person's conversation (spec 05, The tick).
pub const ESCALATION_HELD_MAX: Millis = Millis::from_secs(10 * 60);
/// Assignments that one tick of the overseer looks at, oldest due first.
pub const ASSIGNMENTS_PER_TICK: usize = 500;
/// Stalled runs whose journals are read before one tick; the others are judged without.
pub const DIAGNOSED_PER_TICK: usize = 20;
/// Entries at a journal's end by which a stall is classified (spec 05, Stall).
pub const DIAGNOSED_ENTRIES: usize = 20;
/// Criteria of a task beyond which the overseer proposes to cut it.
pub const CRITERIA_MAX: usize = 10;
/// Criteria of a part that the overseer proposes; more where a task has no room for as many parts.
pub const CRITERIA_OF_PART: usize = 4;
/// Longest objective, in bytes, of a step that the overseer may propose to join with its neighbour.
pub const TRIVIAL_OBJECTIVE_BYTES: usize = 200;
/// Steps that the overseer proposes to make one.
pub const TRIVIAL_CHAIN_MAX: usize = 4;
/// Plans for which the overseer proposes something in one tick.
pub const TIDIED_PER_TICK: usize = 20;
/// Bytes of a stalled run's last words that the planner is told.
pub const JOURNAL_WORDS_BYTES_MAX: usize = 2 * 1024;
/// Bytes that one tick of the overseer writes, about; the rest is for the next.
pub const OVERSEEN_BYTES_MAX: usize = STEP_BYTES_MAX / 2;
/// A program's status updates are passed on no more often than this, unless one was asked for.
pub const UPDATE_EVERY: Millis = Millis::from_secs(60);
/// Bytes of a brief's goal that a launch's dispatch keeps; the run has the whole of it.
pub const LAUNCH_TEXT_BYTES: usize = 512;
/// Reservations of files that a project may have.
pub const RESERVATIONS_MAX: usize = 256;
/// How long a reservation stands when nothing is said.
pub const RESERVED_FOR: Millis = Millis(3_600_000);
/// The shortest time for which a reservation may be asked.
pub const RESERVED_FOR_LEAST: Millis = Millis(10_000);
/// The longest time for which a reservation may be asked.
pub const RESERVED_FOR_MAX: Millis = Millis(24 * 3_600_000);
/// Files that one change may touch: its record names each.
pub const CHANGE_FILES_MAX: usize = 1_000;
/// Names of the files that one change may touch, in bytes in all.
pub const CHANGE_FILES_BYTES_MAX: usize = 24 * 1024;
/// How long a proposed change may wait, unless configured (spec 09, Human gate).
pub const APPROVAL_TTL: Millis = Millis::from_secs(24 * 3600);
/// Refusals by the guard at which people are asked to look at the plan (spec 05).
pub const REFUSALS_MAX: usize = 3;
/// The time they are counted over (spec 05).
pub const REFUSALS_WITHIN: Millis = Millis::from_secs(3600);
/// Changes that one decision lets expire. The rest is for the next tick.
pub const EXPIRED_MAX: usize = 64;
/// Questions that one session may have open; the program is told that a further one was not asked.
pub const QUESTIONS_MAX: usize = 8;
/// The share of a grant's counter at which it is warned of, in percent (spec 06, Budgets).
pub const BUDGET_WARNING_PERCENT: u64 = 80;
/// The part of its grant that an agent with children draws ahead, at least.
pub const DRAWN_PARTS: u64 = 10;
/// Lost runs, and grants of ended children, that one agent's record keeps until they are settled.
pub const OWED_MAX: usize = 32;
/// Runs that are settled at one stroke.
pub const SETTLED_MAX: usize = 64;
/// Ended runs whose journals are kept as artifacts at one stroke.
pub const ARCHIVED_MAX: usize = 256;
/// How long an ended run's journal waits for others at most, so that one artifact keeps them all.
pub const ARCHIVE_GATHERS: Millis = Millis::from_secs(5);
/// Bytes of the journals that share an artifact; to read one of them, all are read.
pub const ARCHIVE_SHARED_BYTES_MAX: usize = 1024 * 1024;
/// How long the artifact is kept that is an ended run's journal (spec 06, Artifacts).
pub const ARCHIVE_KEPT: Millis = Millis::from_secs(30 * 24 * 3600);
/// How long a lost run's journal may take to end; after that it counts as it is. Longer than a drain
/// and a kill.
pub const JOURNAL_ENDS_WITHIN: Millis = Millis::from_secs(60);
/// How many buckets an agent's burn rate is kept for (spec 06, Budgets).
pub const BURN_BUCKETS: usize = 60;
/// Buckets of burn that a runaway is told by: minutes.
pub const RUNAWAY_BUCKETS: usize = 5;
/// The percentile of all that burn at which a rate is a runaway (spec 08, Roster).
pub const RUNAWAY_PERCENTILE: usize = 90;
/// Tokens in so many buckets that are never a runaway.
pub const RUNAWAY_TOKENS_FLOOR: u64 = 100_000;
/// Millionths of a dollar in so many buckets that are never a runaway.
pub const RUNAWAY_COST_MICRO_FLOOR: u64 = 250_000;
/// Characters of the name of a tool that a host tells of.
pub const ACTIVITY_TOOL_CHARS: usize = 48;
/// Characters of what a run said last that its host tells.
pub const ACTIVITY_WORDS_CHARS: usize = 96;
/// How long one of them is.
pub const BURN_BUCKET: Millis = Millis::from_secs(60);
/// Turns of a model in one run of the llm runner; a budget is the ordinary bound.
pub const TURNS_MAX: u64 = 1_000;
/// Turns of a model in a row in which every call failed.
pub const FRUITLESS_TURNS_MAX: u32 = 8;
/// Agents below it that a session knows of; the first that ended is forgotten first.
pub const CHILDREN_KNOWN_MAX: usize = 256;
/// What is told of the deliverable of an agent that was waited for, in bytes; its mail has the rest.
pub const CHILD_TOLD_BYTES_MAX: usize = 2 * 1024;
/// Waits for its agents that a session may have open.
pub const WAITS_MAX: usize = 8;
/// The longest wait for agents or mail, in seconds.
pub const WAIT_SECONDS_MAX: u64 = 3_600;
/// The wait when none is named, in seconds.
pub const WAIT_SECONDS: u64 = 60;
/// Artifacts that mail has named to a session and that it may read; the first is forgotten first.
pub const ARTIFACTS_NAMED_MAX: usize = 1_024;
/// Bytes of an artifact that one call reads.
pub const ARTIFACT_PIECE_BYTES: usize = 16 * 1024;
/// Longest artifact that can be read piece by piece, in bytes: each piece takes the whole from the bus.
pub const ARTIFACT_READ_BYTES_MAX: u64 = 4 * 1024 * 1024;
/// Messages of other agents that a session knows again.
pub const LETTERS_KNOWN_MAX: usize = 4_096;
/// Turns of a model in a row that may be cut off at the limit of output tokens.
pub const CUT_TURNS_MAX: u32 = 4;
/// Calls of one turn that are taken.
pub const CALLS_PER_TURN_MAX: usize = 32;
/// Words and arguments of one turn that are kept, in bytes: with what JSON adds it is a journal's entry.
pub const TURN_BYTES_MAX: usize = JOURNAL_ENTRY_BYTES_MAX / 8 * 3;
/// What a model is told of one call of a tool, in bytes.
pub const TOOL_ANSWER_BYTES_MAX: usize = 48 * 1024;
/// What a run that goes on is given of the conversation before it, in bytes.
pub const RECORDED_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Tokens that a model may write in one turn, unless the profile says otherwise.
pub const OUTPUT_TOKENS: u32 = 8_192;
/// Tokens that a model reads at most, unless the profile says otherwise.
pub const CONTEXT_TOKENS: u32 = 128_000;
/// Share of the context, in thousandths, from which a conversation is summarised.
pub const COMPACTION_SHARE: u64 = 750;
/// Calls of one run that may have something set aside for them at a time.
pub const CALLS_OPEN_MAX: usize = 256;
/// A call's name, in bytes.
pub const CALL_NAME_BYTES_MAX: usize = 200;
/// Verbs of an agent whose receipts its record keeps; no more may wait for its host (spec 06).
pub const VERBS_KEPT: usize = 8;
/// Why a verb was refused, in bytes: an agent's record keeps it.
pub const VERB_WHY_BYTES: usize = 512;
/// How long an obstacle that only people can remove is looked at before a command that follows the work
/// gives up waiting (docs/decisions/0064).
pub const OBSTACLE_BORNE: Millis = Millis::from_secs(2);
/// The same of a host or an orchestrator that may come back by itself, as after a restart.
pub const RETURN_AWAITED: Millis = Millis::from_secs(60);
/// Bytes of a state graph's file as compact JSON; several versions of it fit into one record.
pub const GRAPH_BYTES_MAX: usize = 16 * 1024;
/// Nodes of a state graph.
pub const GRAPH_NODES_MAX: usize = 64;
/// Edges of a node of a state graph.
pub const GRAPH_EDGES_MAX: usize = 16;
/// State graphs of a project.
pub const GRAPHS_MAX: usize = 100;
/// Bytes of a guard.
pub const GUARD_BYTES_MAX: usize = 512;
/// Levels of a guard's expression: each costs stack when it is evaluated.
pub const GUARD_DEPTH_MAX: usize = 16;
/// Turns in one lane of a person that have not ended.
pub const LANE_MAX: usize = 32;
/// Bytes of what a person says in one turn.
pub const TURN_TEXT_BYTES_MAX: usize = 8 * 1024;
/// Earlier turns of a conversation that an agent is told.
pub const HISTORY_TURNS_MAX: usize = 8;
/// Bytes of what was said, and of what was answered, in each of these.
pub const HISTORY_TEXT_BYTES_MAX: usize = 512;
/// Bytes of a text of a graph whose placeholders are filled in.
pub const FILLED_BYTES_MAX: usize = 12 * 1024;
/// Bytes of what is told of one guard that failed.
pub const GUARD_FAILURE_BYTES_MAX: usize = 256;
/// Guards that failed in one move, of which something is told.
pub const GUARD_FAILURES_MAX: usize = 16;
/// Bytes of what a turn's context holds, as compact JSON.
pub const TURN_CONTEXT_BYTES_MAX: usize = 24 * 1024;
