//! The `clock` component: tools for the time of day, time zones and the calendar, a file each.
//!
//! What time it is comes from the host, here and nowhere else; every function below takes it as an argument.
//! The rules of the zones are compiled in.

mod add_to_date;
mod convert_time;
mod current_time;
mod date_difference;
mod moment;
mod when;
mod zone;

use agent_tool::{Failure, clock};
use jiff::Timestamp;

use add_to_date::{Addition, Sum};
use convert_time::{Conversion, Converted};
use current_time::Place;
use date_difference::{Difference, Distance};
use moment::Moment;

fn current_time(place: Place) -> Result<Moment, Failure> {
    current_time::tell(&place, now()?)
}

fn convert_time(conversion: Conversion) -> Result<Converted, Failure> {
    convert_time::convert(&conversion, now()?)
}

fn add_to_date(addition: Addition) -> Result<Sum, Failure> {
    add_to_date::add(&addition, now()?)
}

fn date_difference(difference: Difference) -> Result<Distance, Failure> {
    date_difference::measure(&difference, now()?)
}

fn now() -> Result<Timestamp, Failure> {
    i64::try_from(clock::now_ms())
        .ok()
        .and_then(|ms| Timestamp::from_millisecond(ms).ok())
        .ok_or_else(|| Failure::unavailable("the host's clock tells a time beyond the year 9999"))
}

agent_tool::export! {
    /// Tells the current date and time, in UTC or in a time zone. Use it whenever an answer depends on what
    /// day or time it is now: you cannot know that otherwise.
    current_time(Place) -> Moment, hints: [read_only], timeout_ms: 1000;

    /// Converts a date and time from one time zone to another, daylight saving time included.
    convert_time(Conversion) -> Converted, hints: [read_only], timeout_ms: 1000;

    /// Adds a duration to a date or time, or takes it off: what date is 90 days after this one, what time
    /// will it be in 36 hours. Years, months, weeks and days follow the calendar (a month after January 31 is
    /// the last of February, and a day later is the same time of day even when clocks change); hours, minutes
    /// and seconds are counted exactly.
    add_to_date(Addition) -> Sum, hints: [read_only], timeout_ms: 1000;

    /// Tells how far it is from one date or time to another, in a unit of choice, by the calendar: ages,
    /// deadlines, days until an event. From a day to the next one is 1 day.
    date_difference(Difference) -> Distance, hints: [read_only], timeout_ms: 1000;
}
