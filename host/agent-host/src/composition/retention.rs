//! What is removed once it has ended long ago, from which store and by which bounds.

use std::sync::Arc;

use agent_core::ports::{JobQueue, Leases, Observer, RetainedKind, Retention, RetentionBounds};
use backends::sql::{SqlLeases, SqlPool, SqlQueue, SqlRetention};
use redis_stores::bullmq::{BullQueue, BullRetention};
use redis_stores::redis::Redis;
use run_service::retention::{Rule, Sweeper};

use super::error::WireError;
use super::stores::{self, Opened};
use crate::config::{self, KeyValue};

/// What sweeps these stores under that name.
pub(crate) fn sweeper(
    config: config::Retention,
    key_value: Option<&KeyValue>,
    opened: &Opened,
    name: String,
    observer: Arc<dyn Observer>,
) -> Result<Sweeper, WireError> {
    let mut rules = Vec::new();
    let mut add = |store: Arc<dyn Retention>, leases: Arc<dyn Leases>, bounds: RetentionBounds| {
        rules.push(Rule { store, leases, bounds });
    };
    let mut queue: Option<Arc<dyn JobQueue>> = None;
    let sql = |pool: &SqlPool, kind| {
        let bounds = if kind == RetainedKind::Runs { config.runs } else { RetentionBounds::default() };
        let jobs_elsewhere = matches!(key_value, Some(KeyValue::Redis(_)));
        Arc::new(
            SqlRetention::new(pool.clone(), kind).with_bounds(bounds).with_jobs_elsewhere(jobs_elsewhere),
        )
    };
    let sql_leases = |pool: &SqlPool| Arc::new(SqlLeases::new(pool.clone()));
    // Jobs first: the run of a job stays until its job has ended.
    if let Some(KeyValue::Redis(url)) = key_value {
        let redis = Redis::open(url.expose()).map_err(WireError::Redis)?;
        let bull = BullQueue::with_shards(&redis, url.queue_shards, config.jobs.age);
        let jobs = Arc::new(BullRetention::new(&bull));
        add(jobs.clone(), jobs, config.jobs);
        queue = Some(Arc::new(bull));
    } else if let Some(pool) = &opened.database {
        add(sql(pool, RetainedKind::Jobs), sql_leases(pool), config.jobs);
        // Nothing is added to it here, so that nobody has to write for it.
        let (jobs, _writer) = SqlQueue::new(pool.clone());
        queue = Some(Arc::new(jobs));
    }
    // A number of runs is no number of conversations or lines.
    let by_age = RetentionBounds { count: None, ..config.runs };
    match (&opened.mongo, &opened.database) {
        (Some(mongo), _) => {
            let leases = mongo.leases();
            let runs = mongo.retention(stores::http_recordings(opened));
            add(runs, leases.clone(), config.runs);
            add(mongo.conversation_retention(), leases, by_age);
        }
        (None, Some(pool)) => {
            add(sql(pool, RetainedKind::Runs), sql_leases(pool), config.runs);
            add(sql(pool, RetainedKind::Conversations), sql_leases(pool), by_age);
        }
        (None, None) => {}
    }
    if let Some(pool) = &opened.database {
        add(sql(pool, RetainedKind::ToolAudit), sql_leases(pool), by_age);
    }
    Ok(Sweeper::new(rules, queue, name, observer))
}
