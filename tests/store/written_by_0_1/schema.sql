
CREATE TABLE runs (
    run INTEGER PRIMARY KEY,
    run_id TEXT NOT NULL UNIQUE
);
CREATE TRIGGER runs_are_never_replaced BEFORE INSERT ON runs
WHEN EXISTS (SELECT 1 FROM runs WHERE run = NEW.run OR run_id = NEW.run_id)
BEGIN SELECT RAISE(ABORT, 'the run is in the log already'); END;
CREATE TRIGGER runs_are_never_changed BEFORE UPDATE ON runs
BEGIN SELECT RAISE(ABORT, 'the log is append-only'); END;
CREATE TRIGGER runs_are_never_deleted BEFORE DELETE ON runs
BEGIN SELECT RAISE(ABORT, 'the log is append-only'); END;

CREATE TABLE events (
    run INTEGER NOT NULL REFERENCES runs (run),
    seq INTEGER NOT NULL CHECK (seq >= 0),
    type TEXT NOT NULL,
    task_id TEXT CHECK (task_id IS NOT NULL OR type <> 'eval.scored'),
    at_us INTEGER NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (run, seq)
) WITHOUT ROWID;
CREATE UNIQUE INDEX one_score_per_task ON events (run, task_id) WHERE type = 'eval.scored';
CREATE UNIQUE INDEX one_end_per_run ON events (run) WHERE type = 'run.completed' OR type = 'run.failed' OR type = 'run.cancelled';
CREATE TRIGGER no_gap_and_nothing_after_the_end BEFORE INSERT ON events
WHEN NEW.seq IS NOT coalesce(
    (SELECT CASE WHEN type = 'run.completed' OR type = 'run.failed' OR type = 'run.cancelled' THEN -1 ELSE seq + 1 END
     FROM events WHERE run = NEW.run ORDER BY seq DESC LIMIT 1),
    (SELECT 0 FROM runs WHERE run = NEW.run)
)
BEGIN SELECT RAISE(ABORT, 'an event must be the next one of a run that has not ended'); END;
CREATE TRIGGER scores_are_never_replaced BEFORE INSERT ON events
WHEN NEW.type = 'eval.scored' AND EXISTS (
    SELECT 1 FROM events WHERE run = NEW.run AND task_id = NEW.task_id AND type = 'eval.scored'
)
BEGIN SELECT RAISE(ABORT, 'the task has its score already'); END;
CREATE TRIGGER events_are_never_changed BEFORE UPDATE ON events
BEGIN SELECT RAISE(ABORT, 'the log is append-only'); END;
CREATE TRIGGER events_are_never_deleted BEFORE DELETE ON events
BEGIN SELECT RAISE(ABORT, 'the log is append-only'); END;
