"""The outbox: a row for each event that a webhook is to be sent, written with the event.

Whatever process appends: the statement, or a trigger, asks which webhooks follow the run. A row of
`webhook_followers` is a type of events, or the beginning of types, of one webhook; `place` is the
tenant whose runs it follows, or one workspace of it. Each partition of the log is of one of these.
"""

from collections.abc import Iterable, Sequence

from evalwright.store.records import Execute

# What both databases say alike; `r` is the run, `e` the event, `f` the follower.
_OF_THE_PLACE = """(r.tenant IN (f.place, f.place || '~test')
    OR f.place = f.tenant AND substr(r.tenant, 1, length(f.place) + 1) = f.place || '/')"""
_OF_THE_TYPE = """(e.type = f.pattern
    OR f.is_prefix = 1 AND substr(e.type, 1, length(f.pattern)) = f.pattern)"""

TABLES = """
CREATE TABLE webhook_followers (
    webhook_id text NOT NULL,
    tenant text NOT NULL,
    place text NOT NULL,
    tags text,
    pattern text NOT NULL,
    is_prefix integer NOT NULL,
    PRIMARY KEY (webhook_id, pattern, is_prefix)
);
CREATE TABLE webhook_outbox (
    id {number} PRIMARY KEY,
    webhook_id text NOT NULL,
    run_id text NOT NULL,
    tenant text NOT NULL,
    seq bigint NOT NULL,
    session text,
    attempts integer NOT NULL DEFAULT 0,
    UNIQUE (webhook_id, run_id, seq)
);
CREATE INDEX webhook_outbox_in_order ON webhook_outbox (webhook_id, id);
"""

# What waits counts as documents of a tenant do.
KIND = "webhook_outbox"
ROW_BYTES = 200
COUNT_IN_SQLITE = f"""
CREATE TRIGGER a_delivery_is_counted AFTER INSERT ON webhook_outbox
BEGIN
    INSERT INTO record_sizes VALUES (NEW.tenant, '{KIND}', 1, {ROW_BYTES})
    ON CONFLICT (tenant, kind) DO UPDATE
    SET documents = documents + 1, bytes = bytes + {ROW_BYTES};
END;
CREATE TRIGGER a_delivery_that_is_gone_is_no_longer_counted AFTER DELETE ON webhook_outbox
BEGIN
    UPDATE record_sizes SET documents = documents - 1, bytes = bytes - {ROW_BYTES}
    WHERE tenant = OLD.tenant AND kind = '{KIND}';
END;
"""  # noqa: S608 - constants only
COUNT_IN_POSTGRES = f"""
CREATE FUNCTION count_deliveries() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE sign integer := CASE TG_OP WHEN 'DELETE' THEN -1 ELSE 1 END;
BEGIN
    INSERT INTO record_sizes AS known
    SELECT tenant, '{KIND}', pg_backend_pid() % 16, sign * count(*), sign * count(*) * {ROW_BYTES}
    FROM changed GROUP BY tenant ORDER BY tenant
    ON CONFLICT (tenant, kind, part) DO UPDATE SET
        documents = known.documents + EXCLUDED.documents, bytes = known.bytes + EXCLUDED.bytes;
    RETURN NULL;
END $$;
CREATE TRIGGER deliveries_are_counted AFTER INSERT ON webhook_outbox
REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION count_deliveries();
CREATE TRIGGER deliveries_that_are_gone_are_no_longer_counted AFTER DELETE ON webhook_outbox
REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION count_deliveries();
"""  # noqa: S608 - constants only

HAS_FOLLOWERS = "SELECT 1 FROM webhook_followers LIMIT 1"
_ADD = "INSERT INTO webhook_outbox (webhook_id, run_id, tenant, seq)"
DELIVER_TO_SQLITE = f"""
{_ADD} SELECT DISTINCT f.webhook_id, runs.run_id, r.tenant, e.seq
FROM events e JOIN run_facts r ON r.run = e.run JOIN runs ON runs.run = e.run
JOIN webhook_followers f ON {_OF_THE_PLACE} AND {_OF_THE_TYPE}
AND (f.tags IS NULL OR EXISTS (
    SELECT 1 FROM json_each(f.tags) a JOIN json_each(r.tags) b ON a.value = b.value
))
WHERE e.run = ? AND e.seq >= ? ORDER BY e.seq ON CONFLICT DO NOTHING
"""  # noqa: S608 - constants only
DELIVER_IN_POSTGRES = f"""
CREATE FUNCTION deliver_events() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM webhook_followers) THEN
        {_ADD} SELECT webhook_id, run_id, tenant, seq FROM (
            SELECT DISTINCT f.webhook_id, r.run_id, r.tenant, e.seq
            FROM added e JOIN runs r ON r.run = e.run
            JOIN webhook_followers f ON {_OF_THE_PLACE} AND {_OF_THE_TYPE}
            AND (f.tags IS NULL OR EXISTS (
                SELECT FROM jsonb_array_elements_text(f.tags::jsonb) a
                JOIN jsonb_array_elements_text(r.tags::jsonb) b ON a = b
            ))
        ) wanted ORDER BY run_id, seq ON CONFLICT DO NOTHING;
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER events_are_delivered AFTER INSERT ON events REFERENCING NEW TABLE AS added
FOR EACH STATEMENT EXECUTE FUNCTION deliver_events();
"""  # noqa: S608 - constants only


def follow(
    webhook_id: str, tenant: str, place: str, tags: str | None, patterns: Iterable[tuple[str, bool]]
) -> list[Execute]:
    """What lets a webhook follow the runs of a place, from now on.

    With `tags`, a list in JSON, only those that have one of them. Of the patterns, those that are
    marked are the beginnings of types.
    """
    add = "INSERT INTO webhook_followers VALUES ($1, $2, $3, $4, $5, $6)"
    return [
        Execute("DELETE FROM webhook_followers WHERE webhook_id = $1", (webhook_id,)),
        *(
            Execute(add, (webhook_id, tenant, place, tags, pattern, int(is_prefix)))
            for pattern, is_prefix in patterns
        ),
    ]


def unfollow(webhook_id: str) -> list[Execute]:
    """What ends that, and forgets all that was not sent."""
    return [
        Execute("DELETE FROM webhook_followers WHERE webhook_id = $1", (webhook_id,)),
        Execute("DELETE FROM webhook_outbox WHERE webhook_id = $1", (webhook_id,)),
    ]


def undelivered(run_id: str, repeated: range) -> Execute:
    """What leaves events of a run out, in the transaction that adds them."""
    statement = "DELETE FROM webhook_outbox WHERE run_id = $1 AND seq >= $2 AND seq < $3"
    return Execute(statement, (run_id, repeated.start, repeated.stop))


def sent(ids: Sequence[int]) -> list[Execute]:
    """What forgets events that were sent."""
    return [Execute("DELETE FROM webhook_outbox WHERE id = $1", (each,)) for each in ids]
