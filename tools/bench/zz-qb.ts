import { ReverseHashMap } from "/work/main/packages/kvcr-vllm-adapter/src/index.js";
const N = Number(process.argv[2] ?? 1e6);
const key = Buffer.alloc(36); const kv = new DataView(key.buffer, key.byteOffset, 36);
const h64 = new BigUint64Array(1), h32 = new Uint32Array(h64.buffer);
function gen(i:number){ // splitmix-ish
  let a = Math.imul(i+1,0x9e3779b1)>>>0, b=Math.imul(i^0x5bd1e995,0x85ebca6b)>>>0;
  a ^= a>>>15; a = Math.imul(a,0x2c1b3c6d)>>>0; a^=a>>>12; b^=b>>>13; b=Math.imul(b,0x297a2d39)>>>0; b^=b>>>16;
  kv.setInt32(0,i); kv.setInt32(4,a^i);kv.setInt32(8,b); kv.setInt32(12,a+b|0);kv.setInt32(16,i*7);kv.setInt32(20,b^i);
  kv.setUint32(24,a>>>0); kv.setUint32(28,b>>>0); kv.setInt32(32,0); h32[1]=a; h32[0]=b;
  return key;
}
const seq = (i:number)=> Number((BigInt(i)*2654435761n)%BigInt(N));
globalThis.gc?.(); const m0=process.memoryUsage();
const m = new ReverseHashMap();
let t=performance.now();
for(let i=0;i<N;i++){ gen(i);} const tg=performance.now()-t;
t=performance.now();
for(let i=0;i<N;i++){ m.add(gen(i),4);} 
console.log("insert ns", ((performance.now()-t-tg)/N*1e6).toFixed(0), m.stats(), (m.stats().bytes/N).toFixed(1));
globalThis.gc?.(); const m1=process.memoryUsage(); console.log("mem/key", ((m1.heapUsed+m1.external-m0.heapUsed-m0.external)/N).toFixed(1));
const Q=Math.min(N,2_000_000); const hs:bigint[]=new Array(Q), miss:bigint[]=new Array(Q);
let r=12345; for(let i=0;i<Q;i++){ r=(Math.imul(r,1103515245)+12345)>>>0; gen(r%N); hs[i]=h64[0]!; miss[i]=h64[0]!^0x5555_0000_1234n; }
for (let rep=0;rep<2;rep++){
t=performance.now(); let c=0; for(let i=0;i<Q;i++) if(m.status(hs[i] as any)==="unique")c++; console.log("hit status",((performance.now()-t)/Q*1e6).toFixed(0),c);
t=performance.now(); c=0; for(let i=0;i<Q;i++) c+=(m.lookup(hs[i] as any) as any).length; console.log("hit key",((performance.now()-t)/Q*1e6).toFixed(0),c/Q);
t=performance.now(); c=0; for(let i=0;i<Q;i++) if(m.status(miss[i] as any)==="unique")c++; console.log("miss",((performance.now()-t)/Q*1e6).toFixed(0),c);
const bs:bigint[][]=[],ms:bigint[][]=[]; for(let i=0;i<Q;i+=500){bs.push(hs.slice(i,i+500));ms.push(miss.slice(i,i+500));}
t=performance.now(); c=0; for(const b of bs) c+=m.statusMany(b as any).length; console.log("batch status",((performance.now()-t)/Q*1e6).toFixed(0));
t=performance.now(); c=0; for(const b of bs) c+=m.lookupMany(b as any).length; console.log("batch key",((performance.now()-t)/Q*1e6).toFixed(0));
t=performance.now(); c=0; for(const b of ms) c+=m.statusMany(b as any).length; console.log("batch miss",((performance.now()-t)/Q*1e6).toFixed(0));
}
t=performance.now(); const half=N>>1; for(let i=0;i<half;i++) m.remove(gen(seq(i)),4); console.log("remove",((performance.now()-t)/half*1e6-tg/N*1e6).toFixed(0), m.stats().bytes/m.size);
