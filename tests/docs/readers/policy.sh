# A file of conversations, as the page says how they are written.
"$PYTHON" - <<'PROGRAM'
import gzip, json, random

dice = random.Random(1)
with gzip.open("turns.jsonl.gz", "wt") as file:
    for number in range(20):
        turns, now = [], 0.0
        for stop in dice.choices(["tool_use", "end_turn"], k=dice.randint(3, 8)):
            gap, busy = round(dice.expovariate(0.05), 1), 4.0
            turns.append([now + gap, gap, busy, 2000, 300, 0, 0, stop])
            now += gap + busy
        print(json.dumps({"id": str(number), "turns": turns}), file=file)
PROGRAM
