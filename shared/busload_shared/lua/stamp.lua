-- include: common ranking stamping
-- Give raw elements (LPUSH from any language) their arrival time. Called by every claim, and on each worker's
-- tick while all are busy. Repeating it changes nothing.
--
-- KEYS  1 list  2 state prefix  3 result prefix  4 inflight  5 ranked  6 deadlines
-- ARGV  1 now ms or ''
-- Returns 1 when nothing is left to stamp within reach, 0 when memory did not allow it
local q = { list = KEYS[1], states = KEYS[2], results = KEYS[3], inflight = KEYS[4], ranked = KEYS[5],
  deadlines = KEYS[6] }
return stamp_new(q, now_ms(ARGV[1])) and 1 or 0
