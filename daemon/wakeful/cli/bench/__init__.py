"""`wakeful bench`: one measurement of somebody's own server, and nothing left behind."""
