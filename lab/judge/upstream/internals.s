// Functions without a body, which are linked to others, need an assembly file in their package.
