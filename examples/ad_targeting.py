"""Ad targeting: which three campaigns should this visitor see, and why?

A campaign is a subscription: its conditions have weights (`^weight`), and its priority is a bid. An event has weights too: here
interests count twice as much as age.

Prints:

    ann: running shoes 4.9, student bank account 2.5, city theatre 2.3
    bob: retirement planner 5.3, city theatre 2.3
    cat: city theatre 1.3

    subscription 0 matches with score 4.9
        +0.6  age BETWEEN 18 AND 45 ^0.6   (event: 22)
        +2.8  interests IN ('running', 'fitness') ^1.4   (event: ['running', 'music'])
      +1.5 priority
"""

from matchwood import Engine, Event

CAMPAIGNS = {
    "running shoes": ("age BETWEEN 18 AND 45 ^0.6 AND interests IN ('running', 'fitness') ^1.4", 1.5),
    "student bank account": ("age < 27 ^1.5 AND income < 30000 ^0.5", 0.5),
    "retirement planner": ("age > 55 ^2 AND (income > 60000 ^1.3 OR interests = 'investing' ^0.4)", 2.0),
    "city theatre": ("city = 'Oslo' ^1 OR interests = 'music' ^0.9", 0.5),
    "luxury watches": ("income > 250000 ^3", 4.0),
}
VISITORS = {
    "ann": {"age": 22, "income": 18_000, "city": "Oslo", "interests": ["running", "music"]},
    "bob": {"age": 61, "income": 92_000, "city": "Bergen", "interests": ["music", "sailing"]},
    "cat": {"age": 33, "interests": "cooking", "city": "Oslo"},
}


def main() -> None:
    engine = Engine()
    names = {engine.subscribe(text, priority=bid): name for name, (text, bid) in CAMPAIGNS.items()}
    for visitor, profile in VISITORS.items():
        best = engine.top_k(Event(profile, weights={"interests": 2.0, "city": 0.8}), k=3)
        print(f"{visitor}: {', '.join(f'{names[hit.id]} {hit.score:.1f}' for hit in best)}")
    print()
    print(engine.explain(Event(VISITORS["ann"], weights={"interests": 2.0}), 0))


if __name__ == "__main__":
    main()
