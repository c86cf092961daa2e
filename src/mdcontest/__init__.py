from mdcontest import margins
from mdcontest.contest import Contest, load_contest
from mdcontest.values import *
from mdcontest.occupancy import *
from mdcontest.conditions import check_conditions
