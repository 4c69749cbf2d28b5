//! How far a run came between the attempts at it, from its journal.

use crate::words::Event;

/// How often in a row a run was begun or taken up without any progress since, from its journal. A run that
/// kills its worker every time would otherwise kill one worker after another.
pub fn attempts_without_progress(events: &[Event]) -> u32 {
    let idle = |event: &&Event| matches!(event, Event::Started { .. } | Event::TakenUp { .. });
    u32::try_from(events.iter().rev().take_while(idle).count()).unwrap_or(u32::MAX)
}

/// How often in a row a run was handed back without any progress since, from its journal.
pub fn hand_backs_without_progress(events: &[Event]) -> u32 {
    let idle =
        |event: &&Event| matches!(event, Event::Started { .. } | Event::TakenUp { .. } | Event::HandedBack);
    let idle = events.iter().rev().take_while(idle);
    let hand_backs = idle.filter(|event| matches!(event, Event::HandedBack));
    u32::try_from(hand_backs.count()).unwrap_or(u32::MAX)
}
