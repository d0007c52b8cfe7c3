/** What `make` gives for `key`, made once for all who ask. What failed is forgotten: whoever asks next tries again. */
export function makeOnce<K, V>(known: Map<K, Promise<V>>, key: K, make: () => Promise<V>): Promise<V> {
  const found = known.get(key);
  if (found !== undefined) return found;
  const made = make();
  known.set(key, made);
  made.catch(() => known.delete(key));
  return made;
}
