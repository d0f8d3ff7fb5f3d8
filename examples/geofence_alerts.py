"""Geofence alerts: couriers move through the city, and parcels find the couriers nearby.

The subscription of a courier is a circle around their position; `move` changes its centre. The MO-Tree is the index for
subscribers that move: most moves stay in one cell and are cheap.

Prints:

    08:00  parcel at the station (4 kg): iris
    08:00  parcel at the harbour (4 kg): nobody
    08:20  iris and noor ride to the harbour
    08:20  parcel at the station (4 kg): nobody
    08:20  parcel at the harbour (4 kg): iris, noor
    08:20  parcel at the harbour (15 kg): noor
"""

from matchwood import Engine, Event

PLACES = {"station": (10.7502, 59.9111), "harbour": (10.7313, 59.9068), "park": (10.7018, 59.9272)}
COURIERS = {  # where they start, radius in metres, what they carry
    "iris": ("station", 500, "weight <= 5"),
    "noor": ("park", 900, "weight <= 20"),
    "omar": ("park", 400, "weight <= 5 AND fragile = FALSE"),
}


def main() -> None:
    engine = Engine({"place": "point", "weight": "number", "fragile": "bool"}, index="mo-tree")
    ids = {
        name: engine.subscribe(text, place=PLACES[start], radius=metres)
        for name, (start, metres, text) in COURIERS.items()
    }
    names = {id_: name for name, id_ in ids.items()}

    def parcel(time: str, where: str, weight: float) -> None:
        hits = engine.match(Event({"weight": weight, "fragile": True}, place=PLACES[where]))
        print(f"{time}  parcel at the {where} ({weight} kg): {', '.join(names[hit.id] for hit in hits) or 'nobody'}")

    parcel("08:00", "station", 4)
    parcel("08:00", "harbour", 4)
    for name in ("iris", "noor"):
        engine.move(ids[name], PLACES["harbour"])
    print("08:20  iris and noor ride to the harbour")
    parcel("08:20", "station", 4)
    parcel("08:20", "harbour", 4)
    parcel("08:20", "harbour", 15)


if __name__ == "__main__":
    main()
