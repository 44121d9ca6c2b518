-- What must hold in a log, by the rule that is told where it does not: each query gives the id of a
-- run, a sequence, and what else says where; any of them may be NULL.

-- gap: events are missing: the events of a run are numbered 0, 1, 2 and so on
SELECT run_id, NULL::bigint, found || ' of ' || most + 1 FROM
    (SELECT run, count(*) AS found, min(seq) AS least, max(seq) AS most, bool_or({IS_END}) AS ended
    FROM events GROUP BY run) AS counted LEFT JOIN runs USING (run) WHERE least <> 0
    OR most + 1 <> found;

-- end: the run goes on after this event, which ends it
SELECT run_id, seq, type FROM events AS e LEFT JOIN runs USING (run) WHERE ({IS_END})
    AND EXISTS (SELECT 1 FROM events WHERE run = e.run AND seq > e.seq);

-- score: the task has more than one score
SELECT run_id, max(seq), 'task ' || task_id FROM events LEFT JOIN runs USING (run)
    WHERE type = 'eval.scored' GROUP BY run_id, run, task_id HAVING count(*) > 1;

-- run: the events belong to a run that is not in the log
SELECT NULL, min(seq), 'run number ' || run FROM events WHERE NOT EXISTS (SELECT 1 FROM runs
    WHERE runs.run = events.run) GROUP BY run;

-- tenant: the event belongs to another tenant than its run
SELECT run_id, seq, events.tenant FROM events JOIN runs USING (run)
    WHERE events.tenant <> runs.tenant;

-- annotation: the annotation belongs to a run that is not in the log
SELECT split_part(key, '/', 1), NULL::bigint, key FROM records WHERE kind = 'annotation' AND
    NOT EXISTS (SELECT 1 FROM runs WHERE run_id = split_part(key, '/', 1));

-- content: the content is not what its hash says
SELECT NULL, NULL::bigint, 'content ' || encode(sha256, 'hex') FROM contents
    WHERE sha256(body) <> contents.sha256;

-- content: no run has the content
SELECT NULL, NULL::bigint, 'content ' || encode(sha256, 'hex') FROM contents AS c
    WHERE NOT EXISTS (SELECT 1 FROM run_contents AS r
    WHERE r.tenant = c.tenant AND r.sha256 = c.sha256);

-- content: the content of the event is missing, or is not said to be of its run
SELECT run_id, seq, 'content ' || encode(content, 'hex') FROM events AS e
    LEFT JOIN runs USING (run) WHERE content IS NOT NULL AND NOT EXISTS (SELECT 1 FROM contents AS c
    JOIN run_contents AS r USING (tenant, sha256) WHERE c.tenant = e.tenant AND c.sha256 = e.content
    AND r.run = e.run);

-- facts: what the list shows of the run is not what its events say
SELECT run_id, NULL::bigint, 'run number ' || runs.run FROM runs LEFT JOIN
    (SELECT run, count(*) AS found, min(seq) AS least, max(seq) AS most, bool_or({IS_END}) AS ended
    FROM events GROUP BY run) AS counted USING (run) WHERE coalesce(found, 0) <> last_seq + 1
    OR coalesce(ended, false) <> (ended_us IS NOT NULL);

-- sizes: the sizes of the tenant are not those of its runs
SELECT NULL, NULL::bigint, 'tenant ' || coalesce(known.tenant, found.tenant)
    FROM tenant_sizes AS known FULL JOIN
    (SELECT tenant, count(*) AS runs, sum(last_seq + 1) AS events, sum(bytes) AS bytes FROM runs
    WHERE ended_us IS NOT NULL GROUP BY tenant) AS found USING (tenant)
    WHERE (coalesce(known.runs, 0), coalesce(known.events, 0), coalesce(known.bytes, 0))
    <> (coalesce(found.runs, 0), coalesce(found.events, 0), coalesce(found.bytes, 0));

-- sizes: the sizes of the tenant are not those of its documents
SELECT NULL, NULL::bigint, 'tenant ' || tenant FROM (SELECT tenant, kind, documents, bytes
    FROM record_sizes UNION ALL SELECT tenant, kind, -1, -octet_length(key) - octet_length(body)
    FROM records UNION ALL SELECT tenant, 'tombstone', -1, -{TOMBSTONE} FROM tombstones
    UNION ALL SELECT tenant, 'webhook_outbox', -1, -{DELIVERY} FROM webhook_outbox) AS counted
    GROUP BY tenant, kind HAVING sum(documents) <> 0 OR sum(bytes) <> 0;

-- tombstone: the run was pruned, and is still in the log
SELECT run_id, NULL::bigint, NULL FROM tombstones AS t WHERE EXISTS (SELECT 1 FROM runs
    WHERE runs.run_id = t.run_id) OR EXISTS (SELECT 1 FROM events WHERE events.run = t.run);

-- evidence: the deployment refers to a run that is not in the log
SELECT convert_from(body, 'UTF8')::jsonb ->> 'evalRunId', NULL::bigint,
    'deployment ' || key || ' of ' || tenant
    FROM records WHERE kind = 'deployment' AND convert_from(body, 'UTF8')::jsonb ->> 'evalRunId'
    IS NOT NULL AND NOT EXISTS (SELECT 1 FROM runs
    WHERE run_id = convert_from(body, 'UTF8')::jsonb ->> 'evalRunId') AND NOT EXISTS (SELECT 1
    FROM tombstones WHERE run_id = convert_from(body, 'UTF8')::jsonb ->> 'evalRunId');

-- checksum: the document is not what was written: its checksum is another one
SELECT NULL, NULL::bigint, kind || ' ' || key || ' of ' || tenant FROM records
    WHERE checksum <> {OF_DOCUMENT};

-- checksum: the tombstone is not what was written: its checksum is another one
SELECT run_id, NULL::bigint, 'tombstone' FROM tombstones WHERE checksum <> {OF_TOMBSTONE};
