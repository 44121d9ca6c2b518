-- The event log in a SQLite file. `schema.py` puts {IS_END}, what tells the event that ends a run, and
-- {TOMBSTONE}, as how many bytes a tombstone counts, in their places, and adds the outbox.
--
-- - `events` has its bodies outside the tree of its keys: comparing keys never loads a body. `id` only
--   names a row, and is given again once the newest events are pruned: a reader that goes on later
--   keeps `run` and `seq`.
-- - `contents` holds large parts of events once, however many events have them: the suite of a plan.
--   An event has the bytes before and after the part in `body`; `content` names the part and
--   `content_at` says where in the body (in bytes) it belongs. `contents.py` cuts and joins. A part
--   that no event has any more is deleted with its last event.
-- - `run_facts` and `run_tags` are what lists show and filter by, derived from the log by `facts.py`
--   and written in the same transaction as the events. A run is there from its first event on.
-- - `partition_sizes` sums `run_facts` up, by triggers: runs, events and bytes of each tenant, which
--   is a partition if a host wrote it. A part counts in full for every event that has it.
--   `record_sizes` does so for documents, by kind; what is left of a deleted run counts as one of the
--   kind `tombstone`.
-- - `tombstones` is the way to delete: writing the tombstone of a run that has ended deletes all of the
--   run, and nothing else ever deletes an event. A pruned run's id and number are not used again,
--   except by the run itself if it is restored.
-- - Checksums are those of `checksums.py`; what versions before 0.3 wrote has none.

CREATE TABLE runs (
    run INTEGER PRIMARY KEY AUTOINCREMENT,
    run_id TEXT NOT NULL UNIQUE,
    tenant TEXT NOT NULL DEFAULT 'local'
);

CREATE TABLE contents (
    content INTEGER PRIMARY KEY AUTOINCREMENT,
    sha256 BLOB NOT NULL UNIQUE,
    body TEXT NOT NULL
);
CREATE TABLE events (
    id INTEGER PRIMARY KEY CHECK (id > 0),
    run INTEGER NOT NULL REFERENCES runs (run),
    seq INTEGER NOT NULL CHECK (seq >= 0),
    type TEXT NOT NULL,
    task_id TEXT CHECK (task_id IS NOT NULL OR type <> 'eval.scored'),
    at_us INTEGER NOT NULL,
    body TEXT NOT NULL,
    content INTEGER REFERENCES contents (content),
    content_at INTEGER CHECK ((content IS NULL) = (content_at IS NULL)),
    checksum INTEGER,
    UNIQUE (run, seq)
);
CREATE UNIQUE INDEX one_score_per_task ON events (run, task_id) WHERE type = 'eval.scored';
CREATE UNIQUE INDEX one_end_per_run ON events (run) WHERE {IS_END};
CREATE INDEX events_with_content ON events (content) WHERE content IS NOT NULL;

CREATE TABLE run_facts (
    run INTEGER PRIMARY KEY REFERENCES runs (run),
    tenant TEXT NOT NULL,
    started_us INTEGER NOT NULL,
    ended_us INTEGER,
    status TEXT NOT NULL DEFAULT 'running',
    workflow TEXT NOT NULL DEFAULT '',
    suite TEXT,
    agent TEXT,
    tags TEXT NOT NULL DEFAULT '[]',
    modes TEXT NOT NULL DEFAULT '[]',
    score REAL,
    passed INTEGER,
    repeats TEXT,
    resumed_from TEXT,
    events INTEGER NOT NULL DEFAULT 0,
    bytes INTEGER NOT NULL DEFAULT 0,
    summed INTEGER NOT NULL DEFAULT 0,
    checksum INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX runs_of_tenant ON run_facts (tenant, run);
CREATE INDEX runs_by_status ON run_facts (tenant, status, run);
CREATE INDEX runs_by_suite ON run_facts (tenant, suite, run);
CREATE INDEX runs_by_agent ON run_facts (tenant, agent, run);
CREATE INDEX runs_without_end ON run_facts (run) WHERE ended_us IS NULL;
CREATE INDEX runs_by_end ON run_facts (ended_us) WHERE ended_us IS NOT NULL;
CREATE INDEX runs_of_repeats ON run_facts (repeats, run) WHERE repeats IS NOT NULL;
CREATE INDEX runs_by_origin ON run_facts (resumed_from, run) WHERE resumed_from IS NOT NULL;
CREATE TABLE run_tags (
    tenant TEXT NOT NULL,
    tag TEXT NOT NULL,
    run INTEGER NOT NULL REFERENCES runs (run),
    PRIMARY KEY (tenant, tag, run)
) WITHOUT ROWID;
CREATE INDEX tags_of_run ON run_tags (run);

CREATE TABLE partition_sizes (
    tenant TEXT PRIMARY KEY,
    runs INTEGER NOT NULL,
    events INTEGER NOT NULL,
    bytes INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TRIGGER a_new_run_is_counted AFTER INSERT ON run_facts
BEGIN
    INSERT INTO partition_sizes VALUES (NEW.tenant, 1, NEW.events, NEW.bytes)
    ON CONFLICT (tenant) DO UPDATE SET
        runs = runs + 1, events = events + NEW.events, bytes = bytes + NEW.bytes;
END;
CREATE TRIGGER growth_is_counted AFTER UPDATE OF bytes ON run_facts
BEGIN
    UPDATE partition_sizes
    SET events = events + NEW.events - OLD.events, bytes = bytes + NEW.bytes - OLD.bytes
    WHERE tenant = NEW.tenant;
END;
CREATE TRIGGER a_pruned_run_is_no_longer_counted AFTER DELETE ON run_facts
BEGIN
    UPDATE partition_sizes
    SET runs = runs - 1, events = events - OLD.events, bytes = bytes - OLD.bytes
    WHERE tenant = OLD.tenant;
END;

CREATE TABLE tombstones (
    run INTEGER PRIMARY KEY,
    run_id TEXT NOT NULL UNIQUE,
    tenant TEXT NOT NULL,
    suite TEXT,
    agent TEXT,
    status TEXT NOT NULL,
    started_us INTEGER NOT NULL,
    ended_us INTEGER NOT NULL,
    events INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    at_us INTEGER NOT NULL,
    reason TEXT NOT NULL,
    checksum INTEGER
);
CREATE INDEX tombstones_of_tenant ON tombstones (tenant, run);

CREATE TABLE records (
    kind TEXT NOT NULL,
    tenant TEXT NOT NULL,
    key TEXT NOT NULL,
    body BLOB NOT NULL,
    at_us INTEGER NOT NULL,
    checksum INTEGER,
    PRIMARY KEY (kind, tenant, key)
);

CREATE TABLE record_sizes (
    tenant TEXT NOT NULL,
    kind TEXT NOT NULL,
    documents INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    PRIMARY KEY (tenant, kind)
) WITHOUT ROWID;
CREATE INDEX records_by_age ON records (kind, at_us);

CREATE TRIGGER a_new_document_is_counted AFTER INSERT ON records
BEGIN
    INSERT INTO record_sizes
    VALUES (NEW.tenant, NEW.kind, 1, length(CAST(NEW.key AS BLOB)) + length(NEW.body))
    ON CONFLICT (tenant, kind) DO UPDATE
    SET documents = documents + 1, bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER a_changed_document_is_counted AFTER UPDATE OF body ON records
BEGIN
    UPDATE record_sizes SET bytes = bytes + length(NEW.body) - length(OLD.body)
    WHERE tenant = NEW.tenant AND kind = NEW.kind;
END;
CREATE TRIGGER a_deleted_document_is_no_longer_counted AFTER DELETE ON records
BEGIN
    UPDATE record_sizes SET documents = documents - 1,
        bytes = bytes - length(CAST(OLD.key AS BLOB)) - length(OLD.body)
    WHERE tenant = OLD.tenant AND kind = OLD.kind;
END;
CREATE TRIGGER a_tombstone_is_counted AFTER INSERT ON tombstones
BEGIN
    INSERT INTO record_sizes VALUES (NEW.tenant, 'tombstone', 1, {TOMBSTONE})
    ON CONFLICT (tenant, kind) DO UPDATE
    SET documents = documents + 1, bytes = bytes + {TOMBSTONE};
END;
CREATE TRIGGER a_tombstone_that_is_gone_is_no_longer_counted AFTER DELETE ON tombstones
BEGIN
    UPDATE record_sizes SET documents = documents - 1, bytes = bytes - {TOMBSTONE}
    WHERE tenant = OLD.tenant AND kind = 'tombstone';
END;

-- Rules: what keeps the log append-only. The triggers also stop `INSERT OR REPLACE`, which deletes rows
-- that are in its way without asking unique indexes or the triggers for DELETE.

CREATE TRIGGER runs_are_never_replaced BEFORE INSERT ON runs
WHEN EXISTS (SELECT 1 FROM runs WHERE run = NEW.run OR run_id = NEW.run_id)
BEGIN SELECT RAISE(ABORT, 'the run is in the log already'); END;
CREATE TRIGGER pruned_runs_do_not_return BEFORE INSERT ON runs
WHEN EXISTS (SELECT 1 FROM tombstones WHERE run = NEW.run OR run_id = NEW.run_id)
BEGIN SELECT RAISE(ABORT, 'the run was in the log, and was pruned'); END;
CREATE TRIGGER runs_are_never_changed BEFORE UPDATE ON runs
BEGIN SELECT RAISE(ABORT, 'the log is append-only'); END;
CREATE TRIGGER runs_are_never_deleted BEFORE DELETE ON runs
WHEN NOT EXISTS (SELECT 1 FROM tombstones WHERE run = OLD.run)
BEGIN SELECT RAISE(ABORT, 'the log is append-only'); END;

CREATE TRIGGER events_follow_the_rules BEFORE INSERT ON events
WHEN NEW.seq IS NOT coalesce(
    (SELECT CASE WHEN {IS_END} THEN -1 ELSE seq + 1 END
     FROM events WHERE run = NEW.run ORDER BY seq DESC LIMIT 1),
    (SELECT 0 FROM runs WHERE run = NEW.run)
)
OR (NEW.type = 'eval.scored' AND EXISTS (
    SELECT 1 FROM events WHERE run = NEW.run AND task_id = NEW.task_id AND type = 'eval.scored'
))
OR NEW.id >= 0
OR (NEW.content IS NOT NULL AND NOT EXISTS (SELECT 1 FROM contents WHERE content = NEW.content))
BEGIN SELECT CASE
    WHEN NEW.id >= 0 THEN RAISE(ABORT, 'an event is given its id by the log')
    WHEN NEW.content IS NOT NULL
        AND NOT EXISTS (SELECT 1 FROM contents WHERE content = NEW.content)
    THEN RAISE(ABORT, 'there is no such content')
    WHEN NEW.type = 'eval.scored' AND EXISTS (
        SELECT 1 FROM events WHERE run = NEW.run AND task_id = NEW.task_id AND type = 'eval.scored'
    ) THEN RAISE(ABORT, 'the task has its score already')
    ELSE RAISE(ABORT, 'an event must be the next one of a run that has not ended')
END; END;
CREATE TRIGGER events_are_never_changed BEFORE UPDATE ON events
BEGIN SELECT RAISE(ABORT, 'the log is append-only'); END;
CREATE TRIGGER events_are_never_deleted BEFORE DELETE ON events
WHEN NOT EXISTS (SELECT 1 FROM tombstones WHERE run = OLD.run)
BEGIN SELECT RAISE(ABORT, 'the log is append-only'); END;

CREATE TRIGGER contents_are_never_replaced BEFORE INSERT ON contents
WHEN EXISTS (SELECT 1 FROM contents WHERE content = NEW.content OR sha256 = NEW.sha256)
BEGIN SELECT RAISE(ABORT, 'the content is in the log already'); END;
CREATE TRIGGER contents_are_never_changed BEFORE UPDATE ON contents
BEGIN SELECT RAISE(ABORT, 'the log is append-only'); END;
CREATE TRIGGER contents_of_events_are_never_deleted BEFORE DELETE ON contents
WHEN EXISTS (SELECT 1 FROM events WHERE content = OLD.content)
BEGIN SELECT RAISE(ABORT, 'the log is append-only'); END;
CREATE TRIGGER a_content_goes_with_its_last_event AFTER DELETE ON events
WHEN OLD.content IS NOT NULL AND NOT EXISTS (SELECT 1 FROM events WHERE content = OLD.content)
BEGIN DELETE FROM contents WHERE content = OLD.content; END;

CREATE TRIGGER only_runs_that_have_ended_are_pruned BEFORE INSERT ON tombstones
WHEN NOT EXISTS (
    SELECT 1 FROM runs WHERE run = NEW.run AND run_id = NEW.run_id AND tenant = NEW.tenant
) OR NOT EXISTS (SELECT 1 FROM events WHERE run = NEW.run AND ({IS_END}))
OR EXISTS (SELECT 1 FROM tombstones WHERE run = NEW.run OR run_id = NEW.run_id)
BEGIN SELECT RAISE(ABORT, 'only a run that has ended can be pruned'); END;
CREATE TRIGGER tombstones_are_never_changed BEFORE UPDATE ON tombstones
BEGIN SELECT RAISE(ABORT, 'a tombstone is never changed'); END;
CREATE TRIGGER a_pruned_run_is_deleted_whole AFTER INSERT ON tombstones
BEGIN
    DELETE FROM events WHERE run = NEW.run;
    DELETE FROM run_tags WHERE run = NEW.run;
    DELETE FROM run_facts WHERE run = NEW.run;
    DELETE FROM runs WHERE run = NEW.run;
END;
