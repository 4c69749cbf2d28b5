//! A run for a client, whatever protocol it speaks: `stream` follows it, `sent_text` knows which words were
//! sent, `final_words` are those of its end. `paused`: a run that waits; `waiting`: the sentence for clients
//! that have no word for that. `place`: what a response goes on from, `kept`: keeping it, `last_response`:
//! the one of a connection, without a store. `continued`: the conversation that is named beside one.

pub(super) mod continued;
pub(super) mod conversation_state;
pub(super) mod final_words;
pub(super) mod kept;
pub(super) mod last_response;
pub(super) mod paused;
pub(super) mod sent_text;
pub(super) mod stream;
pub(super) mod waiting;
