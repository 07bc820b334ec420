// What a browser remembers of a user: a token for as long as the window is open, the rest for good. Works where storage is refused.

const open = (area) => ({
  get(name) { try { return area().getItem(`belvedere.${name}`); } catch { return null; } },
  set(name, value) { try { area().setItem(`belvedere.${name}`, value); } catch { /* refused: it is forgotten */ } },
});

export const session = open(() => sessionStorage);
export const local = open(() => localStorage);
