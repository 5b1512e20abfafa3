SELECT name, margin FROM chaos_margin
