//! What scripts see of the world: the language's own objects, `tools`, `console`, the host's clock, and
//! numbers that are random but the same each time.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use boa_engine::builtins::promise::OperationType;
use boa_engine::context::time::{Clock, JsInstant};
use boa_engine::context::{ContextBuilder, HostHooks};
use boa_engine::job::{Job, JobExecutor, PromiseJob};
use boa_engine::module::IdleModuleLoader;
use boa_engine::object::JsObject;
use boa_engine::object::builtins::JsFunction;
use boa_engine::{Context, JsArgs, JsResult, JsString, JsValue, NativeFunction, js_string};

use crate::console::Console;
use crate::globals;
use crate::json;
use crate::limits::{MOST_BUFFER_BYTES, MOST_NESTED_CALLS, MOST_STACKED_VALUES};
use crate::rejections::Rejections;
use crate::toolbox::Tools;
use crate::tools::Calls;

/// Globals that need threads or a clock that waits.
const REMOVED: [&str; 2] = ["Atomics", "SharedArrayBuffer"];

/// Makes a context in which one script can run.
pub(crate) fn build(tools: Rc<dyn Tools>) -> JsResult<Context> {
    let mut context = ContextBuilder::new()
        .clock(Rc::new(HostClock))
        .host_hooks(Rc::new(Hooks))
        .job_executor(Rc::new(Queue::default()))
        .module_loader(Rc::new(IdleModuleLoader))
        .can_block(false)
        .build()?;
    let limits = context.runtime_limits_mut();
    limits.set_recursion_limit(MOST_NESTED_CALLS);
    limits.set_stack_size_limit(MOST_STACKED_VALUES);
    for name in REMOVED {
        context.global_object().delete_property_or_throw(JsString::from(name), &mut context)?;
    }
    replace_random(&mut context)?;
    replace_json_parse(&mut context)?;
    Rejections::install(&mut context);
    Console::install(&mut context)?;
    Calls::install(tools, &mut context)?;
    Ok(context)
}

/// The state of `Math.random`.
struct Random(Cell<u64>);

/// Has `Math.random` count from the call's id: a script that is run again with its call makes the same calls
/// of tools.
fn replace_random(context: &mut Context) -> JsResult<()> {
    // FNV-1a: every byte counts, and nothing here is secret.
    let seed = agent_tool_sdk::context::call_id().bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    context.insert_data(Random(Cell::new(seed)));
    let random = NativeFunction::from_fn_ptr(|_, _, context| {
        let drawn = context.get_data::<Random>().map_or(0, |random| {
            random.0.set(random.0.get().wrapping_add(0x9e37_79b9_7f4a_7c15));
            split_mix(random.0.get())
        });
        // The 53 bits of a float's fraction: from 0 to less than 1.
        Ok(JsValue::from((drawn >> 11) as f64 / (1_u64 << 53) as f64))
    });
    let random = random.to_js_function(context.realm());
    globals::get(js_string!("Math"), context)?.set(js_string!("random"), random, true, context)?;
    Ok(())
}

/// SplitMix64's mixing of a counter into a number that looks like any other.
fn split_mix(counter: u64) -> u64 {
    let mixed = (counter ^ (counter >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// Has `JSON.parse` read JSON as answers of tools are read: the engine's own compiles it as a program. With a
/// function to revive values it is the engine's own still.
fn replace_json_parse(context: &mut Context) -> JsResult<()> {
    let object = globals::get(js_string!("JSON"), context)?;
    let original = object.get(js_string!("parse"), context)?;
    let parse = NativeFunction::from_copy_closure_with_captures(
        |this, arguments, original, context| match original.as_callable() {
            Some(original) if arguments.get_or_undefined(1).is_callable() => {
                original.call(this, arguments, context)
            }
            _ => {
                let text = arguments.get_or_undefined(0).to_string(context)?.to_std_string_lossy();
                json::read(&text, context)
            }
        },
        original,
    );
    let parse: JsFunction = parse.to_js_function(context.realm());
    object.set(js_string!("parse"), parse, true, context)?;
    Ok(())
}

/// The clock of the host.
struct HostClock;

impl Clock for HostClock {
    fn now(&self) -> JsInstant {
        let now = agent_tool_sdk::clock::now_ms();
        JsInstant::new(now / 1000, u32::try_from(now % 1000 * 1_000_000).unwrap_or(0))
    }

    fn system_time_millis(&self) -> i64 {
        i64::try_from(agent_tool_sdk::clock::now_ms()).unwrap_or(i64::MAX)
    }
}

struct Hooks;

impl HostHooks for Hooks {
    /// Every script is in Greenwich.
    fn local_timezone_offset_seconds(&self, _unix_time_seconds: i64) -> i32 {
        0
    }

    fn max_buffer_size(&self, _context: &mut Context) -> u64 {
        MOST_BUFFER_BYTES
    }

    fn promise_rejection_tracker(
        &self,
        promise: &JsObject<boa_engine::builtins::promise::Promise>,
        operation: OperationType,
        context: &mut Context,
    ) {
        let promise = promise.clone().upcast();
        match operation {
            OperationType::Reject => Rejections::add(promise, context),
            OperationType::Handle => Rejections::remove(&promise, context),
        }
    }
}

/// What waits for its turn. There are no timers and nothing to wait for, so when the queue is empty it stays
/// so.
#[derive(Default)]
struct Queue {
    jobs: RefCell<VecDeque<PromiseJob>>,
}

impl JobExecutor for Queue {
    fn enqueue_job(self: Rc<Self>, job: Job, _context: &mut Context) {
        // The other kinds are for timers, for functions that the host makes async, and for objects that were
        // collected.
        if let Job::PromiseJob(job) = job {
            self.jobs.borrow_mut().push_back(job);
        }
    }

    fn run_jobs(self: Rc<Self>, context: &mut Context) -> JsResult<()> {
        loop {
            let next = self.jobs.borrow_mut().pop_front();
            let Some(job) = next else { return Ok(()) };
            job.call(context)?;
        }
    }
}
