-- Where the ends of jobs are sent. Under the job's id, before the job is added; the job's data know nothing of it.
CREATE TABLE webhooks (
    job_id     text   NOT NULL PRIMARY KEY,
    user_id    text   NOT NULL,
    url        text   NOT NULL,
    state      text   NOT NULL, -- waiting, pending, delivered or failed
    tries      bigint NOT NULL DEFAULT 0,
    due_at     bigint, -- none: nothing is to be done
    owner      text  , -- who has claimed it last
    attempts   text   NOT NULL DEFAULT '[]', -- JSON
    created_at bigint NOT NULL
);

CREATE INDEX webhooks_due ON webhooks (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX webhooks_by_age ON webhooks (created_at);
