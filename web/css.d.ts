/** Style sheets are imported for their effect; Vite gathers them. */
declare module "*.css";
