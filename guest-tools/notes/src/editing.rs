//! The tool `edit_notes`.

use agent_tool_sdk::Failure;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::store::{self, Title};

/// What to change.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Edit {
    /// save replaces a note of that title
    action: Action,
    title: String,
    /// Not for delete
    text: Option<String>,
}

// No doc comments here: they would stand in every model call.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Action {
    Save,
    Append,
    Delete,
}

/// What was done.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct Edited {
    title: String,
    /// `created`, `replaced`, `appended` or `deleted`.
    done: &'static str,
    /// Length of the note now.
    characters: usize,
}

/// Changes one note.
pub(crate) fn edit_notes(Edit { action, title, text }: Edit) -> Result<Edited, Failure> {
    let title = Title::read(&title)?;
    if let Action::Delete = action {
        if !store::remove(&title)? {
            return Err(store::refuse_missing(&title)?);
        }
        return Ok(Edited { title: title.as_str().to_owned(), done: "deleted", characters: 0 });
    }
    let text = text.as_deref().map(str::trim).filter(|text| !text.is_empty());
    let text = text.ok_or_else(|| {
        Failure::invalid_arguments(
            "`text` is blank: give what to note, or the action delete to remove the note",
        )
    })?;
    let mut done = "created";
    let written = store::change(&title, |present| {
        // Said anew each time: somebody else may have written or deleted the note meanwhile.
        let (what, text) = match (action, present) {
            (_, None) => ("created", text.to_owned()),
            (Action::Append, Some(present)) => ("appended", format!("{present}\n{text}")),
            (Action::Save | Action::Delete, Some(_)) => ("replaced", text.to_owned()),
        };
        done = what;
        Ok(text)
    })?;
    Ok(Edited { title: title.as_str().to_owned(), done, characters: written.chars().count() })
}

#[cfg(test)]
mod tests {
    use agent_tool_sdk::Component as _;

    use crate::Tools;

    fn edit(arguments: &str) -> Result<String, String> {
        let edited = Tools::call("edit_notes".to_owned(), arguments.to_owned());
        edited.map(|output| output.value).map_err(|failure| failure.message)
    }

    #[test]
    fn notes_are_created_replaced_appended_and_deleted() {
        for (arguments, answer) in [
            (
                r#"{"action":"save","title":"Tea","text":" green "}"#,
                r#"{"title":"Tea","done":"created","characters":5}"#,
            ),
            (
                r#"{"action":"append","title":"Tea","text":"no milk"}"#,
                r#"{"title":"Tea","done":"appended","characters":13}"#,
            ),
            (
                r#"{"action":"save","title":"Tea","text":"é"}"#,
                r#"{"title":"Tea","done":"replaced","characters":1}"#,
            ),
            (
                r#"{"action":"append","title":"New","text":"x"}"#,
                r#"{"title":"New","done":"created","characters":1}"#,
            ),
            (r#"{"action":"delete","title":"Tea"}"#, r#"{"title":"Tea","done":"deleted","characters":0}"#),
        ] {
            assert_eq!(edit(arguments).as_deref(), Ok(answer), "{arguments}");
        }
        let refusal = edit(r#"{"action":"delete","title":"Tea"}"#).unwrap_err();
        assert_eq!(refusal, "there is no note `Tea`, only: `New`");
    }

    #[test]
    fn a_note_without_text_is_refused() {
        for arguments in [r#"{"action":"save","title":"a"}"#, r#"{"action":"append","title":"a","text":" "}"#]
        {
            assert!(edit(arguments).unwrap_err().starts_with("`text` is blank"), "{arguments}");
        }
    }
}
