# "What follows runs against `kvlease up --engines sim`."
kvlease up --engines sim --no-prefill-prefix-caching
