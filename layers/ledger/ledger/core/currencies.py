"""The minor units of the currencies in ISO 4217: the decimals that an amount may have.

https://www.six-group.com/en/products-services/financial-information/data-standards.html, list one. A code that isn't
in the list, such as one of points, has no rule, and neither has one of which the list says "N.A.", such as XAU. Only an
opening looks here: docs/decisions/minor-units.md.
"""

_WITHOUT_DECIMALS = "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF"
_WITH_TWO = (
    "AED AFN ALL AMD AOA ARS AUD AWG AZN BAM BBD BDT BMD BND BOB BOV BRL BSD BTN BWP BYN BZD CAD CDF CHE CHF CHW CNY "
    "COP COU CRC CUP CVE CZK DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GTQ GYD HKD HNL HTG HUF IDR ILS "
    "INR IRR JMD KES KGS KHR KPW KYD KZT LAK LBP LKR LRD LSL MAD MDL MGA MKD MMK MNT MOP MRU MUR MVR MWK MXN MXV MYR "
    "MZN NAD NGN NIO NOK NPR NZD PAB PEN PGK PHP PKR PLN QAR RON RSD RUB SAR SBD SCR SDG SEK SGD SHP SLE SOS SRD SSP "
    "STN SVC SYP SZL THB TJS TMT TOP TRY TTD TWD TZS UAH USD USN UYU UZS VED VES WST XAD XCD XCG YER ZAR ZMW ZWG"
)
_WITH_THREE = "BHD IQD JOD KWD LYD OMR TND"
_WITH_FOUR = "CLF UYW"

MINOR_UNITS: dict[str, int] = {
    code: decimals
    for decimals, codes in ((0, _WITHOUT_DECIMALS), (2, _WITH_TWO), (3, _WITH_THREE), (4, _WITH_FOUR))
    for code in codes.split()
}
"""The number of decimals, by the currency's code."""


def no_minor_units(_: str) -> None:
    """The number of decimals of a currency for accounts that are opened without the rule: none."""
