"""The commands of the data's owner: attach, rotate, top up, detach, restore, examine, audit.

Each command has one module, which `worker.cli` calls. Begin with `attach`. `recovery` is the work
of `restore`, population by population.
"""
