"""Folders in the form of PhysioNet 2012's original files."""

import collections

# By hand: every rule and every kind of missing value occurs.
HEADER = "Time,Parameter,Value"
RECORDS = {
    ("a", 1001): """00:00,Age,54|00:00,Gender,0|00:00,Height,-1|00:00,ICUType,4|00:00,Weight,80
00:00,HR,70|00:10,HR,80|00:10,HR,90|00:10,pH,735|01:00,Temp,-17.8|02:00,MechVent,1|48:00,HR,60""",
    ("a", 1002): """00:00,Age,60|00:00,Gender,1|00:00,Height,170|00:00,ICUType,1|00:00,Weight,-1
00:07,HR,100|00:07,pH,7.2|12:00,Temp,37|12:00,Weight,70|24:00,WBC,12500""",
    ("b", 2001): """00:00,Age,70|00:00,Gender,-1|00:00,Height,462.3|00:00,ICUType,2|00:00,Weight,0
05:00,HR,0|05:00,Temp,36|06:00,NIDiasABP,-1|06:00,FiO2,0.21""",
    # The weight on admission is not a series.
    ("b", 2002): "00:00,Age,40|00:00,Gender,1|00:00,Height,160|00:00,ICUType,3|00:00,Weight,65",
    ("c", 3001): """00:00,Age,33|00:00,Gender,0|00:00,Height,180|00:00,ICUType,3|00:00,Weight,90
00:01,,2.9|00:01,HR,75|00:01,HR,-1|47:59,,3.1""",
    # Nothing but a weight later on, and a value that is left out.
    ("c", 3002): """00:00,Age,90|00:00,Gender,1|00:00,Height,150|00:00,ICUType,1|00:00,Weight,-1
13:00,Weight,0""",
}
DEATHS = {1001: 0, 1002: 1, 2001: 0, 2002: 0, 3001: 1, 3002: 0}
PARTS = {"train": [2001, 1001, 2002], "val": [3001], "test": [3002, 1002]}


def text(rows, number):
    rows = [row for line in rows.split("\n") for row in line.split("|")]
    return "\n".join([HEADER, f"00:00,RecordID,{number}", *rows]) + "\n"


def write_outcomes(path, numbers, deaths):
    lines = [f"{number},6,1,5,-1,{deaths[number]}" for number in numbers]
    header = "RecordID,SAPS-I,SOFA,Length_of_stay,Survival,In-hospital_death"
    path.write_text("\n".join([header, *lines]) + "\n")


def write(folder, records=RECORDS, deaths=DEATHS, parts=PARTS):
    for letter in "abc":
        (folder / f"set-{letter}").mkdir()
        numbers = [number for key, number in records if key == letter]
        write_outcomes(folder / f"Outcomes-{letter}.txt", numbers, deaths)
    for (letter, number), rows in records.items():
        (folder / f"set-{letter}" / f"{number}.txt").write_text(text(rows, number))
    (folder / "splits").mkdir()
    for name, numbers in parts.items():
        write_outcomes(folder / "splits" / f"{name}_listfile.csv", numbers, deaths)
    return folder


def random_records(rng, count):
    """Records with the text of their rows, and per record {(minute, series): [values]}."""
    records, tables = {}, {}
    names = ("HR", "Temp", "Urine", "GCS", "Weight")
    for number in range(500, 500 + count):
        table = collections.defaultdict(list)
        rows = ["00:00,Age,50"]
        for _ in range(rng.integers(1, 40)):
            minute, name = int(rng.integers(1, 60)), str(rng.choice(names))
            value = round(float(rng.uniform(30, 40)), 1) if name != "GCS" else 7.0
            rows.append(f"{minute // 60:02d}:{minute % 60:02d},{name},{value}")
            table[minute, name].append(value)
        records["abc"[number % 3], number] = "|".join(rows)
        tables[number] = table
    return records, tables
