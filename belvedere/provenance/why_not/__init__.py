"""Why a row is not there: where it vanishes on its way."""
