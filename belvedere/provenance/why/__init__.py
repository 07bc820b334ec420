"""Why a row is there: plans read backwards."""
