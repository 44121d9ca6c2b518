"""The tables of the fleet of workers, beside the log, and what is done to them in one step.

- `fleet_runs`: the runs that were handed to the fleet and have not ended, and what their end
  depends on.
- `attempts`: the tasks of those runs, and the queue: a worker takes the first of those that are due
  (`holder`). `attempt` counts how often a task was begun; with `worker` it is the fence: only who
  began the last attempt may write its events. `withdrawn` counts those of them that an order or the
  budget ended: the rest were lost with their workers.
- `fleet_shares`: how many tasks of a run wait and how many are released, that is due or worked on.
  They change only under the lock of the tenant's row in `fleet_owners`.
- `fleet_workers`: who is there. `fleet_refusals`: which runs a worker cannot execute, and why.
- `fleet_rates`: when each provider and tenant may make its next request, and has paid for the last.
- `fleet_counters`: what metrics count.

`tenant` is whose rows they are, a partition of the log; `owner` is the tenant whose share of the
fleet a run counts for, whatever its workspace.

Locks are taken in this order, so nobody waits in a circle: run; its attempts that are due, by their
task ids; owner; shares and attempts that wait. Who takes tasks waits for nobody. Who begins them
locks attempts alone, and who locks them otherwise has the run: they may come after the owner, too.

Statements leave PostgreSQL one way to find attempts, by the key of each or by its place in the
table (`ctid`). Counts of the table say nothing: rows come by the thousand and go with their run,
and a plan that was made in between compares all tasks of a run with all that end.
"""

# ruff: noqa: S608 - statements are made of constants only

WAITING, DUE, SCORED, WITHHELD, UNJUDGED = range(5)  # the states of an attempt
SUSPECT = 2  # attempts lost, after which a task may be what ends its workers

TABLES = f"""
CREATE TABLE fleet_runs (
    run_id text PRIMARY KEY,
    tenant text NOT NULL,
    owner text NOT NULL,
    lane text NOT NULL,
    plan bytea NOT NULL,
    is_paused boolean NOT NULL DEFAULT false,
    remaining integer NOT NULL,
    is_answered boolean NOT NULL,
    first_error text,
    ledger bytea,
    overdue_at timestamptz,
    handed_at timestamptz NOT NULL DEFAULT now()
) WITH (fillfactor = 50);
CREATE INDEX fleet_runs_overdue ON fleet_runs (overdue_at) WHERE overdue_at IS NOT NULL;

CREATE TABLE attempts (
    run_id text NOT NULL,
    tenant text NOT NULL,
    position integer NOT NULL,
    task_id text NOT NULL,
    state smallint NOT NULL DEFAULT {WAITING},
    attempt integer NOT NULL DEFAULT 0,
    withdrawn integer NOT NULL DEFAULT 0,
    worker uuid,
    changed_at timestamptz NOT NULL DEFAULT now(),
    note bytea,
    PRIMARY KEY (run_id, task_id)
) WITH (fillfactor = 70);
CREATE INDEX attempts_waiting ON attempts (run_id, position) WHERE state = {WAITING};
-- Nothing that changes when a task begins is in an index.
CREATE INDEX attempts_due ON attempts (run_id) WHERE state = {DUE};

CREATE TABLE fleet_owners (
    owner text PRIMARY KEY,
    runs integer NOT NULL DEFAULT 0,
    released integer NOT NULL DEFAULT 0,
    scored bigint NOT NULL DEFAULT 0,
    turn bigint NOT NULL DEFAULT 0,
    most integer
) WITH (fillfactor = 50);

CREATE TABLE fleet_shares (
    run_id text PRIMARY KEY,
    tenant text NOT NULL,
    owner text NOT NULL,
    lane text NOT NULL,
    priority integer NOT NULL,
    waiting integer NOT NULL,
    released integer NOT NULL DEFAULT 0,
    ceiling integer NOT NULL,
    is_open boolean NOT NULL DEFAULT true,
    turn bigint NOT NULL DEFAULT 0,
    is_ready boolean GENERATED ALWAYS AS (is_open AND waiting > 0 AND released < ceiling) STORED
) WITH (fillfactor = 50);
CREATE INDEX fleet_shares_ready ON fleet_shares (owner, priority DESC, released, turn)
    WHERE is_ready;
CREATE INDEX fleet_shares_released ON fleet_shares (lane) WHERE released > 0;

CREATE TABLE fleet_workers (
    worker uuid PRIMARY KEY,
    name text NOT NULL,
    concurrency integer NOT NULL,
    tenants text[],
    started_at timestamptz NOT NULL DEFAULT now(),
    seen_at timestamptz NOT NULL DEFAULT now()
);
CREATE TABLE fleet_refusals (
    run_id text NOT NULL,
    tenant text NOT NULL,
    worker uuid NOT NULL REFERENCES fleet_workers (worker) ON DELETE CASCADE,
    reason text NOT NULL,
    PRIMARY KEY (run_id, worker)
);
CREATE TABLE fleet_rates (
    scope text PRIMARY KEY,
    next_request timestamptz NOT NULL DEFAULT '-infinity',
    paid_until timestamptz NOT NULL DEFAULT '-infinity'
);
CREATE TABLE fleet_counters (name text PRIMARY KEY, value bigint NOT NULL DEFAULT 0);
"""

# How many tasks of a tenant may be at work at once, by the settings.
MOST = """
CREATE OR REPLACE FUNCTION fleet_most(who text) RETURNS integer LANGUAGE sql STABLE AS $$
    SELECT coalesce(
        (SELECT most FROM fleet_owners WHERE owner = who),
        (SELECT most FROM fleet_owners WHERE owner = ''),
        1000000
    )
$$
"""

# How many tasks a tenant may have released: its share of the fleet and a few in stock.
SHARE = """
CREATE OR REPLACE FUNCTION fleet_share(who text) RETURNS integer LANGUAGE sql STABLE AS $$
    SELECT least(
        fleet_most(who),
        1 + (
            SELECT coalesce(sum(concurrency), 0) * 5 / 4 FROM fleet_workers
            WHERE seen_at > now() - interval '15 s' AND (tenants IS NULL OR who = ANY (tenants))
        ) / greatest(1, (SELECT count(*) FROM fleet_owners WHERE runs > 0))
    )::integer
$$
"""

# The next tasks of an owner, whose row is locked: of the run with the highest priority, among
# equals of the one with the fewest tasks released.
RELEASE = f"""
CREATE OR REPLACE FUNCTION fleet_release(who text, most integer)
RETURNS TABLE (due_run text, due_task text, due_lane text) LANGUAGE plpgsql AS $$
DECLARE share fleet_shares%ROWTYPE; given integer := 0; now_turn bigint; others integer;
    step integer; found_tasks integer; tasks text[]; places tid[];
BEGIN
    SELECT turn INTO now_turn FROM fleet_owners WHERE owner = who;
    WHILE given < most LOOP
        SELECT * INTO share FROM fleet_shares s WHERE s.owner = who AND s.is_ready
            ORDER BY s.priority DESC, s.released, s.turn LIMIT 1;
        EXIT WHEN NOT FOUND;
        others := NULL;
        SELECT s.released INTO others FROM fleet_shares s WHERE s.owner = who AND s.is_ready
            AND s.priority = share.priority AND s.run_id <> share.run_id
            ORDER BY s.priority DESC, s.released, s.turn LIMIT 1;
        -- As many as bring it level with the next, all at once if there is no other.
        step := least(most - given, share.ceiling - share.released, share.waiting,
            coalesce(others - share.released + 1, 1000000));
        -- The owner's lock keeps them where they are.
        SELECT array_agg(next.task_id), array_agg(next.ctid) INTO tasks, places FROM (
            SELECT w.task_id, w.ctid FROM attempts w
            WHERE w.run_id = share.run_id AND w.state = {WAITING} ORDER BY w.position LIMIT step
        ) next;
        UPDATE attempts a
            SET state = {DUE}, changed_at = clock_timestamp(), worker = NULL, holder = NULL
            WHERE a.ctid = ANY (places) AND a.state::integer = {WAITING};
        RETURN QUERY SELECT share.run_id, u.task_id, share.lane FROM unnest(tasks) AS u(task_id);
        GET DIAGNOSTICS found_tasks = ROW_COUNT;
        now_turn := now_turn + 1;
        UPDATE fleet_shares s SET released = s.released + found_tasks, turn = now_turn,
            -- Where there were fewer tasks, the count was wrong.
            waiting = CASE WHEN found_tasks < step THEN 0 ELSE s.waiting - found_tasks END
            WHERE s.run_id = share.run_id;
        given := given + found_tasks;
    END LOOP;
    UPDATE fleet_owners SET released = released + given, turn = now_turn WHERE owner = who;
END $$
"""

# For workers that have nothing to do: tasks of the tenants that have the fewest released, as many
# as bring one level with the next.
FILL = """
CREATE OR REPLACE FUNCTION fleet_fill(served text[], most integer)
RETURNS TABLE (due_run text, due_task text, due_lane text) LANGUAGE plpgsql AS $$
DECLARE who record; given integer := 0; found_tasks integer; others integer;
BEGIN
    WHILE given < most LOOP
        SELECT t.owner, t.released, fleet_most(t.owner) - t.released AS room INTO who
            FROM fleet_owners t
            WHERE t.runs > 0 AND (served IS NULL OR t.owner = ANY (served))
            AND t.released < fleet_most(t.owner)
            AND EXISTS (SELECT FROM fleet_shares s WHERE s.owner = t.owner AND s.is_ready)
            ORDER BY t.released, t.turn LIMIT 1 FOR UPDATE OF t SKIP LOCKED;
        EXIT WHEN NOT FOUND;
        SELECT min(t.released) INTO others FROM fleet_owners t
            WHERE t.runs > 0 AND (served IS NULL OR t.owner = ANY (served))
            AND t.owner <> who.owner AND t.released < fleet_most(t.owner)
            AND EXISTS (SELECT FROM fleet_shares s WHERE s.owner = t.owner AND s.is_ready);
        RETURN QUERY SELECT * FROM fleet_release(who.owner, least(most - given, who.room,
            greatest(1, coalesce(others - who.released + 1, 1000000))));
        GET DIAGNOSTICS found_tasks = ROW_COUNT;
        given := given + greatest(1, found_tasks);
    END LOOP;
END $$
"""

# The start of tasks: the attempt is locked first, then the log is asked for a score. A task that
# lost two workers may have ended them, so a worker begins one such task at a time: of the tasks
# that were lost together, only the one at fault is lost again.
BEGIN = f"""
CREATE OR REPLACE FUNCTION fleet_begin(who uuid, run_ids text[], task_ids text[])
RETURNS TABLE (place integer, number integer, lost integer, verdict text) LANGUAGE plpgsql AS $$
DECLARE asked record; paused boolean; known text; known_run bigint;
BEGIN
    FOR asked IN SELECT * FROM unnest(run_ids, task_ids) WITH ORDINALITY AS u(run_id, task_id, n)
        ORDER BY run_id, task_id
    LOOP
        place := asked.n; number := 0; lost := 0; verdict := 'later';
        IF EXISTS (
            SELECT FROM attempts a WHERE a.run_id = asked.run_id AND a.task_id = asked.task_id
            AND a.state::integer = {DUE} AND a.attempt - a.withdrawn >= {SUSPECT}
        ) AND EXISTS (
            SELECT FROM attempts a WHERE a.worker = who AND a.state = {DUE}
            AND a.attempt - a.withdrawn > {SUSPECT}
            AND (a.run_id, a.task_id) <> (asked.run_id, asked.task_id)
        ) THEN
            RETURN NEXT;
            CONTINUE;
        END IF;
        verdict := 'gone';
        UPDATE attempts a SET attempt = a.attempt + 1, worker = who, changed_at = clock_timestamp()
            WHERE a.run_id = asked.run_id AND a.task_id = asked.task_id
            AND a.state::integer = {DUE} AND coalesce(a.holder, who) = who
            RETURNING a.attempt, a.attempt - 1 - a.withdrawn INTO number, lost;
        IF NOT FOUND THEN
            number := 0; lost := 0;
        ELSE
            IF known IS DISTINCT FROM asked.run_id THEN
                known := asked.run_id;
                SELECT r.run INTO known_run FROM runs r WHERE r.run_id = known;
            END IF;
            SELECT r.is_paused INTO paused FROM fleet_runs r WHERE r.run_id = asked.run_id;
            verdict := CASE
                WHEN EXISTS (
                    SELECT FROM events e WHERE e.run = known_run
                    AND e.task_id = asked.task_id AND e.type = 'eval.scored'
                ) THEN 'scored'
                WHEN paused IS NULL THEN 'gone'
                WHEN paused AND number > 1 THEN 'paused'
                ELSE 'go'
            END;
        END IF;
        RETURN NEXT;
    END LOOP;
END $$
"""

# The end of tasks: what is known of their run, which is locked, and those that are still mine.
HOLD = f"""
CREATE OR REPLACE FUNCTION fleet_hold(
    run text, task_ids text[], numbers integer[], who uuid,
    OUT mine text[], OUT remaining integer, OUT is_answered boolean, OUT first_error text,
    OUT ledger bytea, OUT is_paused boolean
) LANGUAGE plpgsql AS $$
BEGIN
    SELECT r.remaining, r.is_answered, r.first_error, r.ledger, r.is_paused
        INTO remaining, is_answered, first_error, ledger, is_paused
        FROM fleet_runs r WHERE r.run_id = run FOR UPDATE;
    IF NOT FOUND THEN
        mine := '{{}}';
        RETURN;
    END IF;
    SELECT coalesce(array_agg(held.task_id), '{{}}') INTO mine FROM (
        SELECT * FROM unnest(task_ids, numbers) AS u(task_id, n) ORDER BY u.task_id
    ) asked, LATERAL (
        SELECT a.task_id FROM attempts a WHERE a.run_id = run AND a.task_id = asked.task_id
        AND a.attempt = asked.n AND a.worker = who AND a.state::integer = {DUE} FOR UPDATE
    ) held;
END $$
"""

# What follows from the end of tasks in the same transaction: counts, and the next tasks.
SETTLE = f"""
CREATE OR REPLACE FUNCTION fleet_settle(
    run text, task_ids text[], states smallint[], notes bytea[],
    answered boolean, error text, account bytea, new_ceiling integer
) RETURNS TABLE (due_run text, due_task text, due_lane text) LANGUAGE plpgsql AS $$
DECLARE who text; ended integer; returned integer; free integer;
BEGIN
    -- They are locked, and stay where they are.
    UPDATE attempts a SET state = states[array_position(task_ids, a.task_id)],
        note = notes[array_position(task_ids, a.task_id)], changed_at = clock_timestamp(),
        withdrawn = a.withdrawn
            + (states[array_position(task_ids, a.task_id)] = {WAITING})::integer
        WHERE a.ctid = ANY (ARRAY(
            SELECT held.ctid FROM unnest(task_ids) AS u(task_id), LATERAL (
                SELECT h.ctid FROM attempts h
                WHERE h.run_id = run AND h.task_id = u.task_id OFFSET 0
            ) held
        ));
    ended := cardinality(task_ids);
    returned := cardinality(array_positions(states, {WAITING}::smallint));
    UPDATE fleet_runs r SET remaining = r.remaining - (ended - returned), is_answered = answered,
        first_error = error, ledger = account
        WHERE r.run_id = run RETURNING r.owner INTO who;
    PERFORM FROM fleet_owners t WHERE t.owner = who FOR UPDATE;
    UPDATE fleet_shares s SET released = s.released - ended, waiting = s.waiting + returned,
        ceiling = coalesce(new_ceiling, s.ceiling) WHERE s.run_id = run;
    UPDATE fleet_owners t SET released = t.released - ended, scored = t.scored + ended - returned
        WHERE t.owner = who RETURNING fleet_share(who) - t.released INTO free;
    RETURN QUERY SELECT * FROM fleet_release(who, greatest(0, free));
END $$
"""

# A run leaves the fleet: it has ended, or was cancelled.
LEAVE = """
CREATE OR REPLACE FUNCTION fleet_leave(run text, scored_now integer)
RETURNS TABLE (due_run text, due_task text, due_lane text) LANGUAGE plpgsql AS $$
DECLARE who text; held integer; free integer;
BEGIN
    DELETE FROM fleet_runs r WHERE r.run_id = run RETURNING r.owner INTO who;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    PERFORM FROM fleet_owners t WHERE t.owner = who FOR UPDATE;
    DELETE FROM fleet_shares s WHERE s.run_id = run RETURNING s.released INTO held;
    DELETE FROM attempts a WHERE a.run_id = run;
    DELETE FROM fleet_refusals f WHERE f.run_id = run;
    UPDATE runs SET claimed_until = NULL WHERE runs.run_id = fleet_leave.run;
    UPDATE fleet_owners t SET released = t.released - held, runs = t.runs - 1,
        scored = t.scored + scored_now
        WHERE t.owner = who RETURNING fleet_share(who) - t.released INTO free;
    RETURN QUERY SELECT * FROM fleet_release(who, greatest(0, free));
END $$
"""

# A run joins the fleet: its tasks that have no score, and the first of them are due.
JOIN = """
CREATE OR REPLACE FUNCTION fleet_join(
    run text, its_tenant text, who text, its_lane text, its_plan bytea, its_priority integer,
    its_ceiling integer, answered boolean, account bytea, seconds double precision,
    positions integer[], task_ids text[]
) RETURNS TABLE (due_run text, due_task text, due_lane text) LANGUAGE plpgsql AS $$
DECLARE free integer;
BEGIN
    INSERT INTO fleet_runs (run_id, tenant, owner, lane, plan, remaining, is_answered, ledger,
        overdue_at)
        VALUES (run, its_tenant, who, its_lane, its_plan, cardinality(task_ids), answered,
        account, now() + seconds * interval '1 s');
    INSERT INTO attempts (run_id, tenant, position, task_id)
        SELECT run, its_tenant, u.position, u.task_id
        FROM unnest(positions, task_ids) AS u(position, task_id);
    INSERT INTO fleet_owners AS t (owner, runs) VALUES (who, 1)
        ON CONFLICT (owner) DO UPDATE SET runs = t.runs + 1;
    INSERT INTO fleet_shares (run_id, tenant, owner, lane, priority, waiting, ceiling)
        VALUES (run, its_tenant, who, its_lane, its_priority, cardinality(task_ids), its_ceiling);
    SELECT fleet_share(who) - t.released INTO free FROM fleet_owners t WHERE t.owner = who;
    RETURN QUERY SELECT * FROM fleet_release(who, greatest(0, free));
END $$
"""

# The next turn of a call that is under several limits, each with a time between two calls; returns
# the seconds until it. What earlier calls used must be paid by then, too.
ENTER = """
CREATE OR REPLACE FUNCTION fleet_enter(scopes text[], gaps double precision[])
RETURNS double precision LANGUAGE plpgsql AS $$
DECLARE asked record; turn timestamptz; latest timestamptz := '-infinity';
    moment timestamptz := clock_timestamp();
BEGIN
    FOR asked IN SELECT * FROM unnest(scopes, gaps) AS u(scope, gap) ORDER BY scope LOOP
        INSERT INTO fleet_rates (scope) VALUES (asked.scope) ON CONFLICT DO NOTHING;
        SELECT greatest(next_request, paid_until) INTO turn FROM fleet_rates
            WHERE scope = asked.scope FOR UPDATE;
        UPDATE fleet_rates SET next_request = greatest(next_request, moment - interval '1 s')
            + asked.gap * interval '1 s' WHERE scope = asked.scope;
        latest := greatest(latest, turn);
    END LOOP;
    RETURN greatest(0, extract(epoch FROM greatest(latest, moment) - moment));
END $$
"""

PAY = """
CREATE OR REPLACE FUNCTION fleet_pay(scopes text[], prices double precision[]) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE paid record;
BEGIN
    FOR paid IN SELECT * FROM unnest(scopes, prices) AS u(scope, price) ORDER BY scope LOOP
        UPDATE fleet_rates
            SET paid_until = greatest(paid_until, clock_timestamp() - interval '1 s')
            + paid.price * interval '1 s' WHERE scope = paid.scope;
    END LOOP;
END $$
"""

_FUNCTIONS = (ENTER, PAY, MOST, SHARE, RELEASE, FILL, BEGIN, HOLD, SETTLE, LEAVE, JOIN)
FLEET = "".join(f"{each};\n" for each in (TABLES, *_FUNCTIONS))

# Attempts are the queue, in place of tables of PgQueuer.
HOLDERS = f"""
ALTER TABLE attempts ADD COLUMN holder uuid;
{RELEASE};
{BEGIN};
DROP TABLE IF EXISTS pgqueuer, pgqueuer_log, pgqueuer_schedules, pgqueuer_statistics CASCADE;
DROP FUNCTION IF EXISTS fn_pgqueuer_changed;
DROP TYPE IF EXISTS pgqueuer_status, pgqueuer_statistics_status;
"""
