"""Plans in the shapes that trainers and serving engines take: plain integers, the inverse permutation beside every order."""
