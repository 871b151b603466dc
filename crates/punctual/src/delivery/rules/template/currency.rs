//! Currencies: the codes of ISO 4217 that are in use, and how many decimals an amount is shown with.
//!
//! The decimals are those of CLDR, by which people write amounts: an amount in Iraqi dinars has none, though
//! ISO 4217 counts fils.

use crate::base::document::quote;
use crate::base::suggestion::nearest;
use std::fmt;

/// A currency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Currency {
    code: [u8; 3],
    decimals: usize,
}

impl Currency {
    /// The currency with this code, in upper or lower case.
    pub(crate) fn find(code: &str) -> Option<Self> {
        let found = read_code(code)?;
        codes().any(|known| known.as_bytes() == found).then(|| Self::of(found))
    }

    /// A currency that ISO 4217 does not have in use, such as an old one: any three letters.
    pub(crate) fn unknown(code: &str) -> Option<Self> {
        read_code(code).map(Self::of)
    }

    fn of(code: [u8; 3]) -> Self {
        let among = |list: &str| list.as_bytes().chunks(4).any(|one| one.starts_with(&code));
        let decimals = match &code {
            b"CLF" => 4,
            _ if among(NO_DECIMALS) => 0,
            _ if among(THREE_DECIMALS) => 3,
            _ => 2,
        };
        Self { code, decimals }
    }

    /// The code in capital letters.
    pub(crate) fn code(&self) -> &str {
        std::str::from_utf8(&self.code).unwrap_or_default()
    }

    /// How many decimals an amount is shown with.
    pub(crate) const fn decimals(self) -> usize {
        self.decimals
    }
}

impl fmt::Display for Currency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

/// Whether a text has the form of a code: three capital letters.
pub(crate) fn is_code(text: &str) -> bool {
    text.len() == 3 && text.bytes().all(|b| b.is_ascii_uppercase())
}

/// Says that a code is of no currency in use, with the nearest that is.
pub(crate) fn refusal(code: &str) -> String {
    let meant = nearest(code, codes()).map(|meant| format!("; did you mean `{meant}`?"));
    format!("`{}` is not the code of a currency{}", quote(code), meant.unwrap_or_default())
}

fn read_code(text: &str) -> Option<[u8; 3]> {
    let code: [u8; 3] = text.as_bytes().try_into().ok()?;
    code.iter().all(u8::is_ascii_alphabetic).then(|| code.map(|b| b.to_ascii_uppercase()))
}

/// All codes that are known.
pub(crate) fn codes() -> impl Iterator<Item = &'static str> {
    CODES.split_ascii_whitespace()
}

const CODES: &str = "\
    AED AFN ALL AMD AOA ARS AUD AWG AZN BAM BBD BDT BGN BHD BIF BMD BND BOB BRL BSD BTN BWP BYN BZD CAD CDF \
    CHF CLF CLP CNY COP CRC CUP CVE CZK DJF DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GNF GTQ \
    GYD HKD HNL HTG HUF IDR ILS INR IQD IRR ISK JMD JOD JPY KES KGS KHR KMF KPW KRW KWD KYD KZT LAK LBP LKR \
    LRD LSL LYD MAD MDL MGA MKD MMK MNT MOP MRU MUR MVR MWK MXN MYR MZN NAD NGN NIO NOK NPR NZD OMR PAB PEN \
    PGK PHP PKR PLN PYG QAR RON RSD RUB RWF SAR SBD SCR SDG SEK SGD SHP SLE SOS SRD SSP STN SVC SYP SZL THB \
    TJS TMT TND TOP TRY TTD TWD TZS UAH UGX USD UYU UZS VED VES VND VUV WST XAF XCD XCG XDR XOF XPF YER ZAR \
    ZMW ZWG";
const NO_DECIMALS: &str = "\
    AFN ALL BIF CLP COP DJF GNF HUF IDR IQD IRR ISK JPY KMF KPW KRW LAK LBP MGA MMK PYG RWF SOS SYP UGX VND \
    VUV XAF XOF XPF YER";
const THREE_DECIMALS: &str = "BHD JOD KWD LYD OMR TND";

#[cfg(test)]
mod tests {
    use super::*;

    /// NTF-11: codes are found in any case, with the decimals that people write.
    #[test]
    fn ntf_11_currencies_have_their_decimals() {
        let table = [("usd", 2), ("JPY", 0), ("KWD", 3), ("BHD", 3), ("OMR", 3), ("IQD", 0), ("VED", 2)];
        for (code, decimals) in table {
            let found = Currency::find(code).expect(code);
            assert_eq!((found.code(), found.decimals()), (code.to_uppercase().as_str(), decimals));
        }
        for none in ["", "US", "USDT", "U D", "XYZ", "€€€", "ΑΒΓ"] {
            assert_eq!(Currency::find(none), None, "{none}");
        }
        assert_eq!(refusal("EUX"), "`EUX` is not the code of a currency; did you mean `EUR`?");
        assert!(codes().count() > 150 && codes().all(is_code));
    }
}
