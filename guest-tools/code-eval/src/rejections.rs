//! Promises that were rejected while nobody looked: their errors would be lost.

use std::cell::RefCell;

use boa_engine::builtins::promise::PromiseState;
use boa_engine::object::builtins::JsPromise;
use boa_engine::{Context, JsObject, JsValue};

/// Most promises that are remembered: a script may reject any number, and nobody reads them all.
const MOST: usize = 100;

/// Rejected promises that nobody has looked at yet.
#[derive(Default)]
pub(crate) struct Rejections(RefCell<Vec<JsObject>>);

impl Rejections {
    /// Begins to remember.
    pub(crate) fn install(context: &mut Context) {
        context.insert_data(Self::default());
    }

    pub(crate) fn add(promise: JsObject, context: &Context) {
        if let Some(rejections) = context.get_data::<Self>() {
            let mut promises = rejections.0.borrow_mut();
            if promises.len() < MOST {
                promises.push(promise);
            }
        }
    }

    /// Somebody has looked at this one.
    pub(crate) fn remove(promise: &JsObject, context: &Context) {
        if let Some(rejections) = context.get_data::<Self>() {
            rejections.0.borrow_mut().retain(|other| !JsObject::equals(other, promise));
        }
    }

    /// What the others were rejected with. Nothing is remembered from here on.
    pub(crate) fn take(context: &mut Context) -> Vec<JsValue> {
        let promises =
            context.remove_data::<Self>().map(|rejections| rejections.0.take()).unwrap_or_default();
        let reason = |promise| match JsPromise::from_object(promise).ok()?.state() {
            PromiseState::Rejected(reason) => Some(reason),
            PromiseState::Pending | PromiseState::Fulfilled(_) => None,
        };
        promises.into_iter().filter_map(reason).collect()
    }
}
