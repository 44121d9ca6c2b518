-- What must hold in a log, by the rule that is told where it does not: each query gives the id of a
-- run, a sequence, and what else says where; any of them may be NULL. A rule is of the present
-- schema unless it says since or until which it holds.

-- gap, since 1: the event is missing: the events of a run are numbered 0, 1, 2 and so on
SELECT run_id, CASE WHEN min(seq) <> 0 THEN 0 ELSE (SELECT min(seq) + 1 FROM events AS e
    WHERE run = events.run AND NOT EXISTS (SELECT 1 FROM events WHERE run = e.run
    AND seq = e.seq + 1)) END, NULL FROM events LEFT JOIN runs USING (run) GROUP BY run
    HAVING min(seq) <> 0 OR max(seq) + 1 <> count(*);

-- end, since 1: the run goes on after this event, which ends it
SELECT run_id, seq, type FROM events AS e LEFT JOIN runs USING (run) WHERE ({IS_END})
    AND EXISTS (SELECT 1 FROM events WHERE run = e.run AND seq > e.seq);

-- score, since 1: the task has more than one score
SELECT run_id, max(seq), 'task ' || task_id FROM events LEFT JOIN runs USING (run)
    WHERE type = 'eval.scored' GROUP BY run, task_id HAVING count(*) > 1;

-- score, since 1: the score has no task
SELECT run_id, seq, NULL FROM events LEFT JOIN runs USING (run) WHERE type = 'eval.scored'
    AND task_id IS NULL;

-- run, since 1: the events belong to a run that is not in the log
SELECT NULL, min(seq), 'run number ' || run FROM events WHERE run NOT IN (SELECT run FROM runs)
    GROUP BY run;

-- body, until 2: the body of the event is not JSON
SELECT run_id, seq, type FROM events LEFT JOIN runs USING (run) WHERE NOT json_valid(body);

-- body: the body of the event is not JSON
SELECT run_id, seq, type FROM events LEFT JOIN contents USING (content)
    LEFT JOIN runs USING (run) WHERE NOT json_valid(CASE WHEN content_at IS NULL THEN events.body
    ELSE joined(CAST(events.body AS BLOB), content_at, CAST(contents.body AS BLOB)) END);

-- annotation, since 2: the annotation belongs to a run that is not in the log
SELECT substr(key, 1, instr(key, '/') - 1), NULL, key FROM records WHERE kind = 'annotation'
    AND substr(key, 1, instr(key, '/') - 1) NOT IN (SELECT run_id FROM runs);

-- content: the content is not what its hash says
SELECT run_id, seq, 'content ' || contents.content FROM contents
    LEFT JOIN events USING (content) LEFT JOIN runs USING (run)
    WHERE sha256_of(CAST(contents.body AS BLOB)) IS NOT contents.sha256;

-- content: no event has the content
SELECT NULL, NULL, 'content ' || content FROM contents WHERE content NOT IN (SELECT content
    FROM events WHERE content IS NOT NULL);

-- content: the content of the event is missing
SELECT run_id, seq, 'content ' || content FROM events LEFT JOIN runs USING (run)
    WHERE content IS NOT NULL AND content NOT IN (SELECT content FROM contents);

-- content: where the content of the event belongs is not known
SELECT run_id, seq, type FROM events LEFT JOIN runs USING (run)
    WHERE (content IS NULL) <> (content_at IS NULL);

-- facts: what the list shows of the run is not what its events say
SELECT run_id, NULL, 'run number ' || run FROM
    (SELECT run, count(*) AS found, max({IS_END}) AS ended FROM events GROUP BY run)
    LEFT JOIN run_facts USING (run) LEFT JOIN runs USING (run) WHERE found IS NOT events
    OR ended IS NOT (ended_us IS NOT NULL) OR run_facts.tenant IS NOT runs.tenant;

-- facts: the list shows a run without events
SELECT run_id, NULL, 'run number ' || run FROM run_facts LEFT JOIN runs USING (run)
    WHERE NOT EXISTS (SELECT 1 FROM events WHERE events.run = run_facts.run);

-- sizes: the sizes of the tenant are not those of its runs
SELECT NULL, NULL, 'tenant ' || tenant FROM (SELECT tenant, runs, events, bytes
    FROM partition_sizes UNION ALL SELECT tenant, -1, -events, -bytes FROM run_facts)
    GROUP BY tenant HAVING sum(runs) <> 0 OR sum(events) <> 0 OR sum(bytes) <> 0;

-- sizes: the sizes of the tenant are not those of its documents
SELECT DISTINCT NULL, NULL, 'tenant ' || tenant FROM (SELECT tenant, kind, documents, bytes
    FROM record_sizes UNION ALL SELECT tenant, kind, -1, -length(CAST(key AS BLOB)) - length(body)
    FROM records UNION ALL SELECT tenant, 'tombstone', -1, -{TOMBSTONE} FROM tombstones)
    WHERE kind <> 'webhook_outbox' GROUP BY tenant, kind HAVING sum(documents) <> 0
    OR sum(bytes) <> 0;

-- sizes: the sizes of the tenant are not those of what waits for its webhooks
SELECT NULL, NULL, 'tenant ' || tenant FROM (SELECT tenant, documents FROM record_sizes
    WHERE kind = 'webhook_outbox' UNION ALL SELECT tenant, -1 FROM webhook_outbox) GROUP BY tenant
    HAVING sum(documents) <> 0;

-- tombstone: the run was pruned, and is still in the log
SELECT run_id, NULL, NULL FROM tombstones WHERE run_id IN (SELECT run_id FROM runs) OR run IN
    (SELECT run FROM events);

-- evidence: the deployment refers to a run that is not in the log
SELECT json_extract(CAST(body AS TEXT), '$.evalRunId'), NULL,
    'deployment ' || key || ' of ' || tenant
    FROM records WHERE kind = 'deployment'
    AND json_extract(CAST(body AS TEXT), '$.evalRunId') NOT IN (SELECT run_id FROM runs
    UNION ALL SELECT run_id FROM tombstones);

-- checksum: the document is not what was written: its checksum is another one
SELECT NULL, NULL, kind || ' ' || key || ' of ' || tenant FROM records WHERE checksum IS NOT NULL
    AND checksum IS NOT checksum_of(kind, tenant, key, body, at_us);

-- checksum: the tombstone is not what was written: its checksum is another one
SELECT run_id, NULL, 'tombstone' FROM tombstones WHERE checksum IS NOT NULL AND checksum
    IS NOT checksum_of(run, run_id, tenant, suite, agent, status, started_us, ended_us,
    events, bytes, at_us, reason);
