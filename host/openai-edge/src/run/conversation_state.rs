//! What a response goes on from (`previous_response_id`, `conversation`), and whether it is kept (`store`).
//!
//! A conversation is one of `/api/agent/conversations`.

use agent_core::words::{Turn, is_conversation_id};
use run_service::conversations::{InConversation, in_front};
use run_service::layers::Ask;
use serde_json::{Value, json};

use super::super::input::parameters::{self, Fields};
use super::last_response::{LastResponse, OfConnection};
use http_edge::request::Field;
use http_edge::variant_b::error::Problem;

/// Whether the response is kept: as long as nobody says otherwise, as OpenAI does.
pub(crate) const STORE: Field = parameters::switch("store")
    .about("Whether the response is kept, to be read and gone on from.")
    .default(|| json!(true));

pub(crate) const PREVIOUS: Field = Field::text("previous_response_id")
    .nullable()
    .about("The kept response that this one goes on from.")
    .example(|| json!("resp_01a204ec6206715fbb305322b42db99d"));

/// What the ids of conversations begin with that the service has named.
pub(crate) const OWN_NAME: &str = "conv_";

/// What a request says about it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) previous: Option<String>,
    pub(crate) conversation: Option<String>,
    pub(crate) store: bool,
    /// What the client's connection remembers, if it is a WebSocket.
    pub(crate) connection: Option<OfConnection>,
}

impl Place {
    /// The response that this one goes on from, if the connection remembers that.
    pub(crate) fn remembered(&self) -> Option<&LastResponse> {
        self.connection.as_ref()?.previous.as_deref()
    }

    pub(crate) fn read(fields: &Fields) -> Result<Self, Problem> {
        let previous: Option<String> = parameters::read(fields, &PREVIOUS)?;
        let conversation = match fields.get("conversation") {
            None => None,
            Some(Value::String(id)) => Some(id.as_str()),
            Some(Value::Object(members)) => match members.get("id") {
                Some(Value::String(id)) => Some(id.as_str()),
                _ => return Err(Problem::missing("conversation.id")),
            },
            Some(_) => return Err(Problem::wrong_type("conversation", "a string or an object")),
        };
        if conversation.is_some_and(|id| !is_conversation_id(id)) {
            let why = "it must have at most 64 letters, digits, '.', '_' and '-'.";
            return Err(Problem::invalid("conversation", why));
        }
        if previous.is_some() && conversation.is_some() {
            return Err(Problem::exclusive("previous_response_id", "conversation"));
        }
        let store = parameters::read(fields, &STORE)?.unwrap_or(true);
        Ok(Self { previous, conversation: conversation.map(str::to_owned), store, connection: None })
    }

    /// Puts what was said before in front of the run's query. `turn_id` names the turn that the run makes.
    pub(crate) fn put_in_front(&self, mut ask: Ask, turns: &[Turn], turn_id: Option<String>) -> Ask {
        match &self.conversation {
            // The run itself looks again, when it holds the conversation.
            Some(id) => {
                let seen = Some(turns.last().map(|turn| turn.id.clone()));
                ask.conversation = Some(InConversation { id: id.clone(), turn_id, seen });
            }
            None if self.previous.is_some() => {
                ask.options.history = in_front(turns, &ask.options.history);
            }
            None => {}
        }
        ask
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_goes_on_from_one_thing_and_is_kept_unless_that_is_refused() {
        let read = |body: Value| Place::read(&parameters::fields(body).unwrap());
        let (previous, conversation) = (Some("resp_1".to_owned()), Some("trip".to_owned()));
        let place = Place { store: true, ..Place::default() };
        for (body, expected) in [
            (json!({}), place.clone()),
            (json!({"store": false, "previous_response_id": null}), Place::default()),
            (json!({"previous_response_id": "resp_1"}), Place { previous, ..place.clone() }),
            (json!({"conversation": "trip"}), Place { conversation: conversation.clone(), ..place.clone() }),
            (json!({"conversation": {"id": "trip"}}), Place { conversation, ..place.clone() }),
        ] {
            assert_eq!(read(body.clone()), Ok(expected), "{body}");
        }
        for (body, param) in [
            (json!({"store": "yes"}), "store"),
            (json!({"previous_response_id": 1}), "previous_response_id"),
            (json!({"conversation": 1}), "conversation"),
            (json!({"conversation": {}}), "conversation.id"),
            (json!({"conversation": "a b"}), "conversation"),
            (json!({"conversation": "a", "previous_response_id": "resp_1"}), "previous_response_id"),
        ] {
            assert_eq!(read(body.clone()).unwrap_err().body()["error"]["param"], param, "{body}");
        }
    }
}
