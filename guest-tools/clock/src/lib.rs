//! The `clock` component: tools for the time of day, time zones and the calendar, a file each.
//!
//! What time it is comes from the host, here and nowhere else; every function below takes it as an argument.
//! The rules of the zones are compiled in.
//!
//! What the descriptions leave out, because each word of them is paid for in every model call: years to days
//! follow the calendar and smaller units are exact; a duration is such as `1 year 2 months` too; a time may
//! also be `@` and Unix seconds; a time zone is that of times without an offset, and makes clock changes
//! count; a month after January 31 is the last of February; a day later is the same time of day even when
//! clocks change.

mod add_to_date;
mod convert_time;
mod current_time;
mod date_difference;
mod moment;
mod when;
mod zone;

use agent_tool_sdk::{Failure, clock};
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

agent_tool_sdk::export! {
    /// Tells the current date and time. Use it whenever an answer depends on them.
    current_time(Place) -> Moment, hints: [read_only], timeout_ms: 1000;

    /// Converts a time to another time zone.
    convert_time(Conversion) -> Converted, hints: [read_only], timeout_ms: 1000;

    /// Adds a duration to a date or time.
    add_to_date(Addition) -> Sum, hints: [read_only], timeout_ms: 1000;

    /// Measures the time between two dates or times.
    date_difference(Difference) -> Distance, hints: [read_only], timeout_ms: 1000;
}
