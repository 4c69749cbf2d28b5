//! The table of units. A factor makes of a unit the first unit of its quantity. It is a decimal or a quotient
//! of two, and exact, being how the unit is defined, unless it stands for π.

/// Units that can be converted into each other.
pub(crate) struct Quantity {
    pub(crate) name: &'static str,
    pub(crate) units: &'static [Unit],
}

pub(crate) struct Unit {
    /// In full, in the singular, in lower case but for names of persons and places.
    pub(crate) name: &'static str,
    /// Other names, the symbol first.
    pub(crate) others: &'static [&'static str],
    pub(crate) factor: &'static str,
    /// Added before the factor counts. Of temperatures only.
    pub(crate) offset: &'static str,
    pub(crate) prefixes: Prefixes,
}

/// Which prefixes a unit takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Prefixes {
    None,
    /// From quecto to quetta.
    Si,
    /// From kilo, and the binary ones from kibi.
    Data,
}

/// A prefix: its name, its symbol, and the power of 10 or, for binary ones, of 2.
pub(crate) struct Prefix {
    pub(crate) name: &'static str,
    pub(crate) symbol: &'static str,
    pub(crate) power: i32,
    pub(crate) is_binary: bool,
}

const fn ten(name: &'static str, symbol: &'static str, power: i32) -> Prefix {
    Prefix { name, symbol, power, is_binary: false }
}

const fn two(name: &'static str, symbol: &'static str, power: i32) -> Prefix {
    Prefix { name, symbol, power, is_binary: true }
}

pub(crate) const PREFIXES: [Prefix; 34] = [
    ten("kilo", "k", 3),
    ten("kilo", "K", 3),
    ten("mega", "M", 6),
    ten("giga", "G", 9),
    ten("tera", "T", 12),
    ten("peta", "P", 15),
    ten("exa", "E", 18),
    ten("zetta", "Z", 21),
    ten("yotta", "Y", 24),
    ten("ronna", "R", 27),
    ten("quetta", "Q", 30),
    ten("hecto", "h", 2),
    ten("deca", "da", 1),
    ten("deka", "da", 1),
    ten("deci", "d", -1),
    ten("centi", "c", -2),
    ten("milli", "m", -3),
    ten("micro", "µ", -6),
    ten("micro", "μ", -6),
    ten("micro", "u", -6),
    ten("nano", "n", -9),
    ten("pico", "p", -12),
    ten("femto", "f", -15),
    ten("atto", "a", -18),
    ten("zepto", "z", -21),
    ten("yocto", "y", -24),
    two("kibi", "Ki", 10),
    two("mebi", "Mi", 20),
    two("gibi", "Gi", 30),
    two("tebi", "Ti", 40),
    two("pebi", "Pi", 50),
    two("exbi", "Ei", 60),
    two("zebi", "Zi", 70),
    two("yobi", "Yi", 80),
];

const fn unit(name: &'static str, others: &'static [&'static str], factor: &'static str) -> Unit {
    Unit { name, others, factor, offset: "0", prefixes: Prefixes::None }
}

const fn si(name: &'static str, others: &'static [&'static str], factor: &'static str) -> Unit {
    Unit { name, others, factor, offset: "0", prefixes: Prefixes::Si }
}

const fn data(name: &'static str, others: &'static [&'static str], factor: &'static str) -> Unit {
    Unit { name, others, factor, offset: "0", prefixes: Prefixes::Data }
}

const fn degree(
    name: &'static str,
    others: &'static [&'static str],
    offset: &'static str,
    factor: &'static str,
) -> Unit {
    Unit { name, others, factor, offset, prefixes: Prefixes::None }
}

/// A full turn in radians.
pub(crate) const TWO_PI: &str = "6.283185307179586476925286766559005768394";

pub(crate) const QUANTITIES: [Quantity; 16] = [
    Quantity {
        name: "length",
        units: &[
            si("meter", &["m"], "1"),
            unit("inch", &["in", "\"", "″", "inches"], "0.0254"),
            unit("foot", &["ft", "'", "′", "feet"], "0.3048"),
            unit("yard", &["yd"], "0.9144"),
            unit("mile", &["mi"], "1609.344"),
            unit("nautical mile", &["nmi", "NM", "sea mile"], "1852"),
            unit("light-year", &["ly", "light year", "lightyear"], "9460730472580800"),
            unit("astronomical unit", &["au", "AU"], "149597870700"),
            unit("angstrom", &["Å", "ångström"], "0.0000000001"),
            unit("micron", &[], "0.000001"),
            unit("typographic point", &["pt", "point"], "0.0254/72"),
            unit("thousandth of an inch", &["mil", "thou"], "0.0000254"),
            unit("fathom", &[], "1.8288"),
            unit("furlong", &[], "201.168"),
        ],
    },
    Quantity {
        name: "mass",
        units: &[
            si("gram", &["g", "gramme"], "1"),
            unit("metric ton", &["t", "tonne"], "1000000"),
            unit("pound", &["lb", "lbs"], "453.59237"),
            unit("ounce", &["oz"], "28.349523125"),
            unit("stone", &["st"], "6350.29318"),
            unit("US short ton", &["ton", "US ton", "short ton"], "907184.74"),
            unit("imperial long ton", &["long ton", "imperial ton"], "1016046.9088"),
            unit("troy ounce", &["ozt", "oz t"], "31.1034768"),
            unit("grain", &["gr"], "0.06479891"),
            unit("carat", &["ct"], "0.2"),
        ],
    },
    Quantity {
        name: "temperature",
        units: &[
            degree("kelvin", &["K"], "0", "1"),
            degree("degree Celsius", &["°C", "C", "celsius", "deg C", "centigrade"], "273.15", "1"),
            degree("degree Fahrenheit", &["°F", "F", "fahrenheit", "deg F"], "459.67", "5/9"),
            degree("degree Rankine", &["°R", "rankine"], "0", "5/9"),
        ],
    },
    Quantity {
        name: "volume",
        units: &[
            si("liter", &["L", "l"], "1"),
            unit("cubic meter", &["m3", "cbm"], "1000"),
            unit("cubic centimeter", &["cm3", "cc", "ccm"], "0.001"),
            unit("cubic millimeter", &["mm3"], "0.000001"),
            unit("cubic decimeter", &["dm3"], "1"),
            unit("cubic kilometer", &["km3"], "1000000000000"),
            unit("cubic inch", &["in3"], "0.016387064"),
            unit("cubic foot", &["ft3", "cubic feet"], "28.316846592"),
            unit("cubic yard", &["yd3"], "764.554857984"),
            unit("US gallon", &["gal", "gallon"], "3.785411784"),
            unit("US quart", &["qt", "quart"], "0.946352946"),
            unit("US pint", &["pt", "pint"], "0.473176473"),
            unit("US cup", &["cup"], "0.2365882365"),
            unit("US fluid ounce", &["fl oz", "floz", "oz", "ounce", "fluid ounce"], "0.0295735295625"),
            unit("US tablespoon", &["tbsp", "tablespoon"], "0.01478676478125"),
            unit("US teaspoon", &["tsp", "teaspoon"], "0.00492892159375"),
            unit("imperial gallon", &["imp gal", "UK gallon"], "4.54609"),
            unit("imperial quart", &["imp qt", "UK quart"], "1.1365225"),
            unit("imperial pint", &["imp pt", "UK pint"], "0.56826125"),
            unit("imperial fluid ounce", &["imp fl oz", "UK fluid ounce"], "0.0284130625"),
            unit("oil barrel", &["bbl", "barrel"], "158.987294928"),
        ],
    },
    Quantity {
        name: "area",
        units: &[
            unit("square meter", &["m2", "sqm", "qm"], "1"),
            unit("square kilometer", &["km2", "sqkm"], "1000000"),
            unit("square centimeter", &["cm2"], "0.0001"),
            unit("square millimeter", &["mm2"], "0.000001"),
            unit("hectare", &["ha"], "10000"),
            unit("are", &["a"], "100"),
            unit("acre", &["ac"], "4046.8564224"),
            unit("square inch", &["in2", "sqin"], "0.00064516"),
            unit("square foot", &["ft2", "sqft", "square feet"], "0.09290304"),
            unit("square yard", &["yd2", "sqyd"], "0.83612736"),
            unit("square mile", &["mi2", "sqmi"], "2589988.110336"),
        ],
    },
    Quantity {
        name: "speed",
        units: &[
            unit("meter/second", &["m/s", "mps"], "1"),
            unit("kilometer/hour", &["km/h", "kph", "kmh", "kmph"], "5/18"),
            unit("kilometer/second", &["km/s"], "1000"),
            unit("mile/hour", &["mph", "mi/h"], "0.44704"),
            unit("foot/second", &["ft/s", "fps", "feet/second"], "0.3048"),
            unit("knot", &["kn", "kt", "kts"], "463/900"),
            unit("speed of light", &["c"], "299792458"),
        ],
    },
    Quantity { name: "data", units: &[data("bit", &["b"], "1"), data("byte", &["B", "octet"], "8")] },
    Quantity {
        name: "data rate",
        units: &[
            data("bit/second", &["bit/s", "bps", "b/s"], "1"),
            data("byte/second", &["B/s", "byte/s", "Bps"], "8"),
        ],
    },
    Quantity {
        name: "time",
        units: &[
            si("second", &["s", "sec"], "1"),
            unit("minute", &["min"], "60"),
            unit("hour", &["h", "hr"], "3600"),
            unit("day", &["d"], "86400"),
            unit("week", &["wk", "w"], "604800"),
            unit("fortnight", &[], "1209600"),
            unit("mean month", &["mo", "month"], "2629746"),
            unit("mean year", &["yr", "y", "a", "year"], "31556952"),
            unit("mean decade", &["decade"], "315569520"),
            unit("mean century", &["century", "centuries"], "3155695200"),
        ],
    },
    Quantity {
        name: "pressure",
        units: &[
            si("pascal", &["Pa"], "1"),
            si("bar", &[], "100000"),
            unit("standard atmosphere", &["atm", "atmosphere"], "101325"),
            unit(
                "pound-force/square inch",
                &["psi", "lbf/in2", "pound/square inch"],
                "4.4482216152605/0.00064516",
            ),
            unit("torr", &["Torr"], "101325/760"),
            unit("millimeter of mercury", &["mmHg", "mm Hg"], "133.322387415"),
            unit("inch of mercury", &["inHg", "in Hg"], "3386.388640341"),
        ],
    },
    Quantity {
        name: "energy",
        units: &[
            si("joule", &["J"], "1"),
            si("watt-hour", &["Wh", "watt hour", "watthour"], "3600"),
            si("calorie", &["cal"], "4.184"),
            // Food is measured in kilocalories, told from a calorie by the capital alone.
            unit("kilocalorie", &["Cal", "Calorie", "Calories"], "4184"),
            si("electronvolt", &["eV"], "0.0000000000000000001602176634"),
            unit("British thermal unit", &["BTU", "Btu"], "1055.05585262"),
            unit("therm", &[], "105505585.262"),
            unit("foot-pound", &["ft lb", "ft-lb", "ft lbf", "foot pound"], "1.3558179483314004"),
            unit("erg", &[], "0.0000001"),
            unit("ton of TNT", &[], "4184000000"),
        ],
    },
    Quantity {
        name: "power",
        units: &[
            si("watt", &["W"], "1"),
            unit("mechanical horsepower", &["hp", "horsepower", "bhp"], "745.69987158227022"),
            unit("metric horsepower", &["PS", "cv"], "735.49875"),
            unit("British thermal unit/hour", &["BTU/h", "Btu/h"], "1055.05585262/3600"),
        ],
    },
    Quantity {
        name: "angle",
        units: &[
            unit("turn", &["rev", "revolution"], "1"),
            unit("degree", &["°", "deg"], "1/360"),
            si("radian", &["rad"], "1/π"),
            unit("gradian", &["gon", "grad"], "1/400"),
            unit("arcminute", &["arcmin", "′", "'", "minute of arc", "minute"], "1/21600"),
            unit("arcsecond", &["arcsec", "″", "\"", "second of arc", "second"], "1/1296000"),
        ],
    },
    Quantity {
        name: "force",
        units: &[
            si("newton", &["N"], "1"),
            unit("pound-force", &["lbf", "pound"], "4.4482216152605"),
            unit("kilogram-force", &["kgf", "kp"], "9.80665"),
            unit("dyne", &["dyn"], "0.00001"),
        ],
    },
    Quantity {
        name: "frequency",
        units: &[si("hertz", &["Hz"], "1"), unit("revolution/minute", &["rpm", "1/min"], "1/60")],
    },
    Quantity {
        name: "fuel economy",
        units: &[
            unit("kilometer/liter", &["km/l", "kpl"], "1"),
            unit("mile/US gallon", &["mpg", "mile/gallon"], "1.609344/3.785411784"),
            unit("mile/imperial gallon", &["imp mpg", "UK mpg"], "1.609344/4.54609"),
        ],
    },
];
